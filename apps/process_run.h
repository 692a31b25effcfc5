/* Running one process of a graph of several.  Implemented in process_run.c, or without.c without
   ZeroMQ; the last two functions in run.c. */
#ifndef MR_APPS_PROCESS_RUN_H
#define MR_APPS_PROCESS_RUN_H

#include "apps/cli.h"
#include "pipeline/process.h"

/* Builds the graph of the command line with its flags, cut into processes for a run of this name.
   The caller destroys *g, which is NULL on failure: failures of parsing and cutting, or
   MR_ERR_UNAVAILABLE in a build without ZeroMQ. */
mr_err_t mr_process_cut(const mr_args_t *a, const char *run, mr_graph_t **g, mr_diag_t *diag);

/* Runs the process that --process names.  It rebuilds its graph whenever a peer requests a part of
   the stream that this process no longer holds.  With --resume it resumes from what its sinks have
   written since --since: the newest checkpoint, or the ledger's state.  Blocks until the end;
   returns what mr_command_t.run does. */
int mr_process_run(const mr_args_t *a, mr_diag_t *diag);

/* Applies the flags of `run` to a graph that is not settled.  MR_ERR_USAGE, or failures of the
   settings. */
mr_err_t mr_run_set_flags(const mr_args_t *a, mr_graph_t *g, mr_diag_t *diag);
void mr_run_tell(const mr_graph_t *g); /* prints the stages' reports and statistics */

#endif
