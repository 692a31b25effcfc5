/* Running a graph of several processes: one of them (process_run.c, or without.c without ZeroMQ),
   and all together (supervise.c). */
#ifndef MR_APPS_RUN_PROCESS_RUN_H
#define MR_APPS_RUN_PROCESS_RUN_H

#include <signal.h>

#include "apps/cli/cli.h"
#include "pipeline/graph/process.h"

/* From the supervisor to a process: all processes that it feeds have ended for good.  No signal
   that a user or a scheduler sends. */
#define MR_SIGNAL_ALONE (SIGRTMIN + 1)

/* Builds the graph of the command line with its flags, cut into processes for a run of this name.
   The caller destroys *g, which is NULL on failure: failures of parsing and cutting, or
   MR_ERR_UNAVAILABLE in a build without ZeroMQ. */
mr_err_t mr_process_cut(const mr_args_t *a, const char *run, mr_graph_t **g, mr_diag_t *diag);

/* Runs the process that --process names.  It rebuilds its graph whenever a peer requests a part of
   the stream that this process no longer holds.  With --resume it resumes from what its sinks have
   written since --since: the newest checkpoint, or the ledger's state.  Blocks until the end;
   returns what mr_command_t.run does. */
int mr_process_run(const mr_args_t *a, mr_diag_t *diag);

/* In run.c: applies the flags of `run` to a graph that is not settled.  MR_ERR_USAGE, or failures
   of the settings. */
mr_err_t mr_run_set_flags(const mr_args_t *a, mr_graph_t *g, mr_diag_t *diag);
void mr_run_report(const mr_graph_t *g); /* in run.c: prints the stages' reports and statistics */

/* Runs every process of a graph with process { } blocks, each as `millrace run ... --process NAME`,
   and blocks until all have ended.  g must be cut and settled, so that its mistakes have been
   reported.  A process killed by a signal is restarted as often as its restart= allows, together
   with connected ones that had ended already; one that ends with a failure stops all, and so does
   one that SIGINT or SIGTERM ends, however far it has come.  Ctrl-C stops first the processes that
   only receive, so that nothing sent is lost.  A second one after the grace time
   (apps/run/interrupt.h) ends all at once except for checkpoints in progress; a third kills all.
   No child outlives this process, however it ends; a signal that comes
   behind the last end changes nothing.  Returns 0, MR_EXIT_STOPPED, 128 + SIGTERM if
   that signal stopped it, or a failure. */
int mr_supervise(const mr_args_t *a, const mr_graph_t *g, const char *run, mr_diag_t *diag);

#endif
