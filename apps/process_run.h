/* One process of a graph of several. */
#ifndef MR_APPS_PROCESS_RUN_H
#define MR_APPS_PROCESS_RUN_H

#include "apps/cli.h"
#include "pipeline/process.h"

/* Makes the graph of the command line, with what its flags set; cut for a run of this name. */
mr_err_t mr_process_cut(const mr_args_t *a, const char *run, mr_graph_t **g, mr_diag_t *diag);

/* Runs the process that --process names, and makes its graph again whenever a peer asks for a part
   of the stream that is gone from here.  With --resume it goes on from what its sinks have written
   (since --since): the newest checkpoint, or the ledger's state.  As mr_command_t.run. */
int mr_process_run(const mr_args_t *a, mr_diag_t *diag);

/* How `run` sets what its flags say about a graph that has not settled yet. */
mr_err_t mr_run_set_flags(const mr_args_t *a, mr_graph_t *g, mr_diag_t *diag);
void mr_run_tell(const mr_graph_t *g); /* what its stages report, and their statistics */

#endif
