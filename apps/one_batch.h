/* One batch of a graph, made without those before it. */
#ifndef MR_APPS_ONE_BATCH_H
#define MR_APPS_ONE_BATCH_H

#include "pipeline/graph.h"

/* Takes a batch that a graph gave; spec is its edge's.  The batch is the caller's only for the time
   of the call. */
typedef mr_err_t (*mr_take_fn)(void *ctx, const mr_spec_t *spec, const mr_buf_t *batch,
                               mr_diag_t *diag);

/* Cuts g, not yet settled, down to the stage `stage` (NULL: the end of its line of batches), starts
   it at step (from 1), hands that step's batch to take, and ends it.  The caller destroys g.
   MR_ERR_CONFIG if the stream has no such step. */
mr_err_t mr_one_batch(mr_graph_t *g, const char *stage, int64_t step, mr_take_fn take, void *ctx,
                      mr_diag_t *diag);

#endif
