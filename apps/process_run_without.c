/* Graphs of several processes in a build without ZeroMQ: unavailable. */
#include "apps/process_run.h"
#include "base/feature.h"

static const char what[] = "run: a graph of several processes";

mr_err_t mr_process_cut(const mr_args_t *a, const char *run, mr_graph_t **g, mr_diag_t *diag) {
  *g = NULL;
  return mr_without(diag, what, "ZMQ");
}

int mr_process_run(const mr_args_t *a, mr_diag_t *diag) { return mr_without(diag, what, "ZMQ"); }
