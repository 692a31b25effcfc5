/* What reduce_sum and reduce_max share: removing dimensions, and walking what is reduced. */
#ifndef MR_MODEL_OPS_REDUCE_H
#define MR_MODEL_OPS_REDUCE_H

#include "model/ops/op.h"

mr_err_t mr__reduce_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag);
/* Spreads v, the result's cotangent, over the operand's shape. */
mr_var_t *mr__reduce_spread(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *v);
/* x's dimensions as (kept..., reduced...): sizes and strides; returns how many are kept. */
int mr__reduce_walk(const mr_eqn_t *e, int64_t *dim, int64_t *stride);
/* out = fold over the reduced elements from start, in f32. */
void mr__reduce_run(const mr_cpu_call_t *c, float start, float (*fold)(float, float));

#endif
