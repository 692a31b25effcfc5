/* What backends need to know of take and its transpose.  Implemented in take.c. */
#ifndef MR_MODEL_OPS_TAKE_H
#define MR_MODEL_OPS_TAKE_H

#include "model/ir/fn.h"

/* Products of sizes: x (batch..., n, row...), index (batch..., at...), y (batch..., at...,
   row...). */
typedef struct mr_take_sizes {
  int64_t batch, n, at, row;
} mr_take_sizes_t;

/* Returns the sizes of e, a take or take_vjp; x is the aval that rows are taken from, or added to.
   Cannot fail. */
mr_take_sizes_t mr__take_sizes(const mr_eqn_t *e, const mr_aval_t *x);

#endif
