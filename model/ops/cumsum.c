/* Cumulative sums along an axis, from either end. */
#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_cumsum(mr_fn_t *f, mr_var_t *x, int axis, bool reverse) {
  mr_attr_t attr[] = {mr_attr_int("axis", axis), mr_attr_bool("reverse", reverse)};
  return mr_emit1(f, &mr_op_cumsum, 1, &x, 2, attr);
}

static mr_err_t cumsum_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  int64_t axis = mr_attr_get(e, "axis")->i[0];
  if (axis < 0 || axis >= e->in[0]->aval.ndim) return mr_shape_fail(e, diag, "no such axis");
  MR_TRY(mr_check_numbers(e, diag));
  return mr_shape_same(e, out, diag);
}

/* The transpose is the cumulative sum from the other end. */
static mr_err_t cumsum_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  bool reverse = mr_attr_get(e, "reverse")->i[0] != 0;
  din[0] = mr_lax_cumsum(f, dout[0], (int)mr_attr_get(e, "axis")->i[0], !reverse);
  return mr_rule_done(f);
}

static mr_err_t cumsum_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                             mr_batched_t *out) {
  mr_var_t *x = mr_batch_front(f, &in[0], 1);
  int axis = (int)mr_attr_get(e, "axis")->i[0] + 1;
  out[0].var = mr_lax_cumsum(f, x, axis, mr_attr_get(e, "reverse")->i[0] != 0);
  out[0].axis = 0;
  return mr_rule_done(f);
}

static bool cumsum_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 1) return false;
  return mr_sample_done(s, mr_lax_cumsum(s->f, mr_sample_f32(s, -1, 1, 2, 4, 3), k + 1, k == 1));
}

const mr_op_def_t mr_op_cumsum = {
    MR_RULES_PRIMITIVE,      .name = "cumsum",     .n_in = 1,         .n_out = 1,
    .shape = cumsum_shape,   .jvp = mr_jvp_linear, .vjp = cumsum_vjp, .batch = cumsum_batch,
    .sample = cumsum_sample, .amp = MR_AMP_WIDE,   .inplace = {1},
};
