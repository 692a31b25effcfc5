/* Running a graph that Ctrl-C stops in an orderly way. */
#ifndef MR_APPS_RUN_INTERRUPT_H
#define MR_APPS_RUN_INTERRUPT_H

#include <stdbool.h>
#include <sys/types.h>

#include "apps/run/observe.h"

/* A second signal within this time counts as the first: timeout, srun, make and init programs of
   containers send each signal both to the process and to its group. */
enum { MR_INTERRUPT_GRACE_MS = 2000 };

/* Plans and starts g, and blocks until its end.  While it is planned, which may mean to wait for a
   server or to make an index, SIGINT and SIGTERM end the process.  Later the first one requests an
   orderly end, which is reported on standard error; the next one after the grace time ends the
   process as by default, after finishing a checkpoint in progress.  SIGUSR1 asks the training stage
   for a checkpoint, and the run continues; before the first call has planned its graph it does
   nothing, as main ignores it.  A signal between two calls counts for the later call.  Sets
   *stopped to whether a signal came.  look: what to observe, NULL:
   nothing.  One graph at a time; handlers stay installed after the first call.  Returns the graph's
   failure, or MR_ERR_IO if no thread for signals can start. */
mr_err_t mr_run_interruptible(mr_graph_t *g, const mr_look_t *look, bool *stopped, mr_diag_t *diag);

/* The exit status of a command that a signal has stopped: 128 + SIGTERM after SIGTERM, else
   MR_EXIT_STOPPED. */
int mr_interrupt_status(void);

/* Requests an orderly end of a process that this one has started and that runs graphs as above, or,
   with at_once, the end that a second signal brings.  An orderly request never counts as a second
   signal, whatever signals the process has received before.  Never blocks; a process that has ended
   is fine. */
void mr_interrupt_process(pid_t pid, bool at_once);

/* Makes writes to a closed pipe and beyond the file size limit fail, like writes to a full disk,
   instead of ending the program.  Every run calls it before it starts. */
void mr_writes_fail(void);

void mr_notice_reader(void);

#endif
