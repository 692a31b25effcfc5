/* Batches of a graph from any step on, made without those before them. */
#ifndef MR_APPS_TAKE_BATCHES_H
#define MR_APPS_TAKE_BATCHES_H

#include "pipeline/graph.h"

/* Takes the batch of a step; spec is its edge's.  The batch is the caller's only for the time of
   the call.  MR_END: no more are wanted. */
typedef mr_err_t (*mr_take_fn)(void *ctx, const mr_spec_t *spec, int64_t step,
                               const mr_buf_t *batch, mr_diag_t *diag);

typedef struct mr_batches {
  const char *stage; /* whose batches; NULL: the end of the graph's line of batches */
  int64_t first, n;  /* steps first to first + n - 1, from 1; n 0: to the end */
  mr_take_fn take;
  void *ctx;
  bool (*ready)(void *ctx, const mr_graph_t *g); /* of the settled graph: false ends it here, well;
                                                    NULL: true */
} mr_batches_t;

/* Cuts g, not yet settled, down to the stage, starts it at step first, and hands each batch to
   take, in the calling order of steps, on another thread.  The caller destroys g.  MR_ERR_CONFIG if
   the stream has no step first. */
mr_err_t mr_take_batches(mr_graph_t *g, const mr_batches_t *want, mr_diag_t *diag);

#endif
