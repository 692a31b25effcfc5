/* Looking at a run from beside it: which stage limits, live and at the end; a timeline file. */
#ifndef MR_APPS_EXPLAIN_H
#define MR_APPS_EXPLAIN_H

#include "apps/cli.h"
#include "pipeline/graph.h"

/* Rows for the flags of a command that runs a graph. */
#define MR_LOOK_FLAGS                                                                    \
  {"--explain", NULL,                                                                    \
   "Reports every 3 seconds on standard error which stage limits the run, and why."},    \
  {                                                                                      \
    "--trace", "FILE", "Writes a Chrome trace of what each worker did with which batch." \
  }

/* What a command was asked to look at; says: a last line about the whole run. */
typedef struct mr_look {
  bool explain, says;
  const char *trace;
} mr_look_t;

mr_look_t mr_look_of(const mr_args_t *a);

typedef struct mr_explain mr_explain_t;
/* A thread that explains g every few seconds, from start to mr_explain_end, which comes before g is
   destroyed.  NULL where it cannot be: then it says nothing.  mr_explain_end(NULL) is fine. */
mr_explain_t *mr_explain_begin(const mr_graph_t *g);
void mr_explain_end(mr_explain_t *e);
/* One line about the whole run of a joined graph. */
void mr_explain_run(const mr_graph_t *g);

/* Writes the timeline of a joined graph, whole or not at all. */
mr_err_t mr_look_write_trace(const mr_graph_t *g, const char *path, mr_diag_t *diag);

#endif
