/* Matrix products of equations on CPU: operands seen as (batch, rows, columns) by strides, so
   that a transposed operand costs nothing; what cannot be seen so is copied into order first. */
#ifndef MR_MODEL_OPS_PRODUCT_H
#define MR_MODEL_OPS_PRODUCT_H

#include "model/ops/op.h"

/* Groups of dimensions of one operand, each in the order in which it is walked. */
typedef struct mr_side {
  int n_batch, n_free, n_contract;
  int batch[MR_MAX_NDIM], free[MR_MAX_NDIM], contract[MR_MAX_NDIM];
} mr_side_t;

/* Lowers out = a b (+ bias[n]); out is dense (batch, a's free, b's free).  bias_in: index of the
   bias among e->in, or -1. */
mr_err_t mr__product_lower(mr_call_t *c, const mr_side_t *a, const mr_side_t *b, int bias_in,
                           mr_diag_t *diag);

#endif
