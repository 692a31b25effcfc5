/* What reduce_sum and reduce_max share: removing dimensions. */
#ifndef MR_MODEL_OPS_REDUCE_H
#define MR_MODEL_OPS_REDUCE_H

#include "model/ir/op.h"

mr_err_t mr__reduce_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag);
/* Spreads v, the result's cotangent, over the operand's shape. */
mr_var_t *mr__reduce_spread(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *v);
unsigned mr__reduce_mask(const mr_eqn_t *e); /* bit i: dimension i of the operand is reduced */
/* The dimensions of more than one element of which some are reduced and others not: `first` and
   `end` of the reduced ones; whether they stand side by side. */
bool mr__reduce_range(const mr_aval_t *x, unsigned mask, int *first, int *end);
/* The unit rule of both: not one unless trailing or leading axes of f32 or bf16, more than one
   element, are reduced.  Axes of size 1 may stand anywhere. */
bool mr__reduce_unit(const mr_eqn_t *e, mr_unit_t *u);
/* The axes of the mapped reduction into axes; returns their number, and in *axis where the mapped
   dimension is then. */
int mr__reduce_batch(const mr_eqn_t *e, const mr_batched_t *in, int *axes, int *axis);

#endif
