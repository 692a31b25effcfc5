/* Resuming a stream from the state that a ledger stage saved. */
#ifndef MR_APPS_FROM_STATE_H
#define MR_APPS_FROM_STATE_H

#include "pipeline/graph.h"

/* Sets the stage that makes batches to the earliest of the state files "A,B,...", and every ledger
   of g, or the one of this name alone, to resume after that step.  g must not be settled.
   MR_ERR_IO, MR_ERR_DATA for a file that is no state, MR_ERR_USAGE for a graph without batches,
   MR_ERR_NOMEM. */
mr_err_t mr_from_state(mr_graph_t *g, const char *files, const char *ledger, mr_diag_t *diag);

#endif
