/* Running a graph that Ctrl-C ends in order. */
#ifndef MR_APPS_INTERRUPT_H
#define MR_APPS_INTERRUPT_H

#include <stdbool.h>
#include <sys/types.h>

#include "apps/explain.h"

/* A signal that comes sooner after the one before it counts as the same: timeout, srun, make and
   init programs of containers send each one to the process and to its group. */
enum { MR_INTERRUPT_GRACE_MS = 2000 };

/* Starts g and waits for its end.  The first SIGINT or SIGTERM asks for an orderly end, which is
   said on standard error; the next one after the grace ends the process as usual, but for a
   checkpoint under way, which is finished first.  One that comes between two calls counts for the
   later one.  *stopped: whether one came.  look: what else is wanted of the run, NULL: nothing.
   One graph at a time; handlers stay after the first call.  The graph's failure, or MR_ERR_IO
   without a thread for signals. */
mr_err_t mr_run_interruptible(mr_graph_t *g, const mr_look_t *look, bool *stopped, mr_diag_t *diag);

/* Asks a process that this one has started, and that runs graphs as above, for an orderly end; or
   for the end that a second signal brings.  An orderly request is never taken for a second signal,
   whatever the process has had from others.  Never blocks; a process that is gone is fine. */
void mr_interrupt_process(pid_t pid, bool at_once);

/* From here on a reader that is gone and a limit of a file's size are failed writes, like a full
   disk, and do not end the program.  Every run does this before it starts. */
void mr_writes_fail(void);

#endif
