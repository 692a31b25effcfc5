/* What take and its transpose say to backends. */
#ifndef MR_MODEL_OPS_TAKE_H
#define MR_MODEL_OPS_TAKE_H

#include "model/ir/fn.h"

/* x (batch..., n, row...), index (batch..., at...), y (batch..., at..., row...) in elements. */
typedef struct mr_take_sizes {
  int64_t batch, n, at, row;
} mr_take_sizes_t;

/* e: take or take_vjp; x: what rows are taken from, or added to. */
mr_take_sizes_t mr__take_sizes(const mr_eqn_t *e, const mr_aval_t *x);

#endif
