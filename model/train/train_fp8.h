/* The state of fp8 between steps, for each run that may be unread (model/train/train.c). */
#ifndef MR_MODEL_TRAIN_TRAIN_FP8_H
#define MR_MODEL_TRAIN_TRAIN_FP8_H

#include "model/train/train.h"

/* Run k reads state k and writes the next, as it does with the loss scale's. */
typedef struct mr__fp8_ring {
  int n, history; /* as mr_train_fp8_t's */
  float *mem;     /* (MR_TRAIN_RING + 1) states, one after the other */
} mr__fp8_ring_t;

/* Takes the states that the graph f of a step has between its in-place tensors and the scalars
   before them; first: the number of the input that has the scales.  The first state is that of a
   new run.  MR_OK or MR_ERR_NOMEM; the caller calls fini in both cases. */
mr_err_t mr__fp8_ring_init(mr__fp8_ring_t *r, const mr_fn_t *f, int first, mr_diag_t *diag);
/* Returns the state that run `run` reads. */
mr_train_fp8_t mr__fp8_ring_at(const mr__fp8_ring_t *r, int64_t run);
/* Points in[0,2) at the state that run `run` reads, and out[0,2) at the one that it writes. */
void mr__fp8_ring_bind(const mr__fp8_ring_t *r, int64_t run, const void **in, void **out);
void mr__fp8_ring_fini(mr__fp8_ring_t *r); /* frees the states; a zeroed ring is fine */

#endif
