/* Running a graph that Ctrl-C ends in order. */
#ifndef MR_APPS_INTERRUPT_H
#define MR_APPS_INTERRUPT_H

#include <stdbool.h>

#include "apps/explain.h"

/* Starts g and waits for its end.  The first SIGINT or SIGTERM asks for an orderly end, the second
   one kills as usual.  *stopped: whether one came.  look: what else is wanted of the run, NULL:
   nothing.  One graph at a time. */
mr_err_t mr_run_interruptible(mr_graph_t *g, const mr_look_t *look, bool *stopped, mr_diag_t *diag);

/* From here on a reader that is gone and a limit of a file's size are failed writes, like a full
   disk, and do not end the program.  Every run does this before it starts. */
void mr_writes_fail(void);

#endif
