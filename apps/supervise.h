/* Supervision of a graph's processes: starting, restarting after a crash, orderly stopping. */
#ifndef MR_APPS_SUPERVISE_H
#define MR_APPS_SUPERVISE_H

#include "apps/cli.h"
#include "pipeline/process.h"

/* Runs every process of a graph with process { } blocks, each as `millrace run ... --process NAME`,
   and blocks until all have ended.  g must be cut and settled, so that its mistakes have been
   reported.  A process killed by a signal is restarted as often as its restart= allows, together
   with connected ones that had ended already; one that ends with a failure stops all.  Ctrl-C stops
   first the processes that only receive, so that nothing sent is lost.  A second one after the
   grace time (apps/interrupt.h) ends all at once except for checkpoints in progress; a third kills
   all.  No child outlives this process, however it ends.  Returns 0, MR_EXIT_STOPPED, or a
   failure. */
int mr_supervise(const mr_args_t *a, const mr_graph_t *g, const char *run, mr_diag_t *diag);

#endif
