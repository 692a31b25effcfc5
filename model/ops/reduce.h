/* What reduce_sum and reduce_max share: removing dimensions, and walking what is reduced. */
#ifndef MR_MODEL_OPS_REDUCE_H
#define MR_MODEL_OPS_REDUCE_H

#include "model/ops/op.h"

mr_err_t mr__reduce_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag);
/* Spreads v, the result's cotangent, over the operand's shape. */
mr_var_t *mr__reduce_spread(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *v);
/* How two elements become one: of f32 and bf16, of f64, of integers and bool. */
typedef struct mr_reduce_fold {
  float (*f32)(float, float);
  double (*f64)(double, double);
  int64_t (*i64)(int64_t, int64_t);
} mr_reduce_fold_t;
/* out = fold over the reduced elements from start, in the narrowest of an integer dtype if that is
   lower. */
void mr__reduce_run(const mr_call_t *c, double start, const mr_reduce_fold_t *fold);
/* What unit rules of reductions share: u's kind and inner; false unless trailing or leading axes of
   f32 or bf16, more than one element, are reduced.  Axes of size 1 may stand anywhere. */
bool mr__reduce_unit(mr_unit_t *u);
/* Binds c to a kernel for neighbouring dimensions with others on both sides, of f32 or bf16; false:
   it is not such a one.  Same bits as mr__reduce_run. */
bool mr__reduce_middle(mr_call_t *c);
/* The axes of the mapped reduction into axes; returns their number, and in *axis where the mapped
   dimension is then. */
int mr__reduce_batch(const mr_eqn_t *e, const mr_batched_t *in, int *axes, int *axis);

#endif
