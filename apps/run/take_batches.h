/* A graph that is run for its batches alone. */
#ifndef MR_APPS_RUN_TAKE_BATCHES_H
#define MR_APPS_RUN_TAKE_BATCHES_H

#include "pipeline/graph/graph.h"
#include "pipeline/records/find.h"

/* Receives the batch of a step; spec is its edge's.  The batch is valid only during the call.
   Returns MR_OK, MR_END to end the run, or a failure. */
typedef mr_err_t (*mr_take_fn)(void *ctx, const mr_spec_t *spec, int64_t step,
                               const mr_buf_t *batch, mr_diag_t *diag);

typedef struct mr_batches {
  const char *stage; /* whose batches; NULL: the end of the graph's line of batches */
  int64_t first, n;  /* steps first to first + n - 1, from 1; n 0: to the end */
  mr_take_fn take;
  void *ctx;
  int workers; /* of the batch stage; 0: one, which makes no batches that are not taken */
  bool (*ready)(void *ctx, const mr_graph_t *g); /* called with the settled graph; false ends the
                                                    call with MR_OK; NULL: true */
  /* Instead of taking all batches, first asks mr_graph_find for the places of a record in them, of
     which it wants key and source; found NULL: no.  Where it cannot tell, calls walks (not NULL)
     with the reason and takes all of them. */
  mr_find_t find;
  void (*walks)(void *ctx, const char *why);
  const char *data; /* of mr_data_facts: a word on standard error names the sources whose data are
                       others now; NULL: none */
} mr_batches_t;

/* Cuts g, which must not be settled, down to the stage, starts it at step `first`, and passes each
   batch to take, in the order of steps, on another thread.  Blocks until the end; the caller
   destroys g.  MR_ERR_CONFIG if the stream has no step `first`, MR_ERR_USAGE if the graph makes no
   batches, else failures of the graph or of take. */
mr_err_t mr_take_batches(mr_graph_t *g, const mr_batches_t *want, mr_diag_t *diag);

#endif
