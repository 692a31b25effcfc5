/* What take and its transpose share.  Both may carry leading mapped dimensions: attribute `batch`
   says how many of x's and the index's first dimensions go together. */
#ifndef MR_MODEL_OPS_TAKE_H
#define MR_MODEL_OPS_TAKE_H

#include "model/ops/op.h"

/* x (batch..., N, row...), index (batch..., at...), y (batch..., at..., row...) in elements. */
typedef struct mr_take {
  int64_t batch, n, at, row;
} mr_take_t;

mr_take_t mr__take_sizes(const mr_aval_t *x, const mr_aval_t *index, int batch);
/* Element k of an i32 index, moved into [0,n). */
int64_t mr__take_row(const void *index, int64_t k, int64_t n);
int mr__take_batch(const mr_eqn_t *e);
/* The scatter of dy into zeros of x's shape. */
mr_var_t *mr__take_back(mr_fn_t *f, mr_var_t *dy, mr_var_t *index, const mr_aval_t *x, int batch);
mr_var_t *mr__take_emit(mr_fn_t *f, mr_var_t *x, mr_var_t *index, int batch);

#endif
