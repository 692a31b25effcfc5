/* Going on with a stream that a ledger stage has left. */
#ifndef MR_APPS_FROM_STATE_H
#define MR_APPS_FROM_STATE_H

#include "pipeline/graph.h"

/* Sets the stage that makes batches to where the earliest of the state files "A,B,..." stands, and
   every ledger of g (or the one of this name alone) to go on after that step.  g is not settled.
   MR_ERR_IO, MR_ERR_DATA. */
mr_err_t mr_from_state(mr_graph_t *g, const char *files, const char *ledger, mr_diag_t *diag);

#endif
