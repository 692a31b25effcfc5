/* The maximum over axes.  Its derivatives compare the operand with the result: equal maxima share,
   as in jax. */
#include "model/ops/lax.h"
#include "model/ops/operands.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_reduce_max(mr_fn_t *f, mr_var_t *x, int n, const int *axes) {
  return mr_emit1(f, &mr_op_reduce_max, 1, &x, 1, (mr_attr_t[]){mr_attr_axes("axes", n, axes)});
}

/* 1 where the operand equals the result, else 0, in the operand's dtype. */
static mr_var_t *where_largest(mr_fn_t *f, const mr_eqn_t *e) {
  mr_var_t *x = e->in[0], *where = mr_lax_eq(f, x, mr__reduce_spread(f, e, e->out[0]));
  return mr_lax_convert(f, where, x->aval.dtype);
}

/* The sum of v over the axes of e. */
static mr_var_t *sum_over_axes_of(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *v) {
  const mr_attr_t *axes = mr_attr_get(e, "axes");
  int a[MR_MAX_NDIM];
  for (int i = 0; i < axes->n; i++) a[i] = (int)axes->i[i];
  return mr_lax_reduce_sum(f, v, axes->n, a);
}

/* Equal maxima share the cotangent equally. */
static mr_err_t reduce_max_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout,
                               mr_var_t **din) {
  mr_var_t *where = where_largest(f, e);
  mr_var_t *share = mr_lax_div(f, dout[0], sum_over_axes_of(f, e, where));
  din[0] = mr_lax_mul(f, mr__reduce_spread(f, e, share), where);
  return mr_rule_done(f);
}

/* The tangent is the mean of those of equal maxima. */
static mr_err_t reduce_max_jvp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din,
                               mr_var_t **dout) {
  mr_var_t *where = where_largest(f, e);
  mr_var_t *sum = sum_over_axes_of(f, e, mr_lax_mul(f, where, din[0]));
  dout[0] = mr_lax_div(f, sum, sum_over_axes_of(f, e, where));
  return mr_rule_done(f);
}

static mr_err_t reduce_max_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                                 mr_batched_t *out) {
  int axes[MR_MAX_NDIM], n = mr__reduce_batch(e, &in[0], axes, &out[0].axis);
  out[0].var = mr_lax_reduce_max(f, in[0].var, n, axes);
  return mr_rule_done(f);
}

static bool reduce_max_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 2) return false;
  mr_var_t *x = mr_sample_f32(s, -1, 1, 3, 4, 2);
  const int axes[3][2] = {{1}, {0, 1}, {0, 2}};
  return mr_sample_done(s, mr_lax_reduce_max(s->f, x, k ? 2 : 1, axes[k]));
}

const mr_op_def_t mr_op_reduce_max = {
    MR_RULES_PRIMITIVE,
    .batch = reduce_max_batch,
    .sample = reduce_max_sample,
    .name = "reduce_max",
    .n_in = 1,
    .n_out = 1,
    .shape = mr__reduce_shape,
    .ad = {.jvp = reduce_max_jvp, .vjp = reduce_max_vjp},
    .fuse = {.unit = mr__reduce_unit},
    .amp = {MR_AMP_FOLLOW},
    .shard = {mr_shard_reduce, .folds = MR_CUT_MAX},
};
