/* Running a graph that Ctrl-C ends in order. */
#ifndef MR_APPS_INTERRUPT_H
#define MR_APPS_INTERRUPT_H

#include <stdbool.h>

#include "pipeline/graph.h"

/* Starts g and waits for its end.  The first SIGINT or SIGTERM asks for an orderly end, the second
   one kills as usual.  *stopped: whether one came.  One graph at a time. */
mr_err_t mr_run_interruptible(mr_graph_t *g, bool *stopped, mr_diag_t *diag);

#endif
