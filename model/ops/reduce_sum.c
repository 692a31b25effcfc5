#include "model/ops/arithmetic.h"
#include "model/ops/lax.h"
#include "model/ops/reduce.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_reduce_sum(mr_fn_t *f, mr_var_t *x, int n, const int *axes) {
  return mr_emit1(f, &mr_op_reduce_sum, 1, &x, 2,
                  (mr_attr_t[]){mr_attr_axes("axes", n, axes), mr_attr_none("out_sharding")});
}

static mr_err_t reduce_sum_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  MR_TRY(mr_check_numbers(e, diag));
  MR_TRY(mr__reduce_shape(e, out, diag));
  bool narrow = out->dtype == MR_BF16;
  if (narrow && mr_attr_find(e, "preferred_element_type")) out->dtype = MR_F32;
  return MR_OK;
}

static mr_err_t reduce_sum_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout,
                               mr_var_t **din) {
  din[0] = mr__reduce_spread(f, e, dout[0]);
  return mr_rule_done(f);
}

static mr_err_t reduce_sum_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                                 mr_batched_t *out) {
  int axes[MR_MAX_NDIM], n = mr__reduce_batch(e, &in[0], axes, &out[0].axis);
  out[0].var = mr_lax_reduce_sum(f, in[0].var, n, axes);
  return mr_rule_done(f);
}

static bool reduce_sum_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 2) return false;
  mr_var_t *x = mr_sample_f32(s, -1, 1, 3, 4, 2);
  const int axes[3][2] = {{1}, {0, 1}, {0, 2}};
  return mr_sample_done(s, mr_lax_reduce_sum(s->f, x, k ? 2 : 1, axes[k]));
}

const mr_op_def_t mr_op_reduce_sum = {
    MR_RULES_PRIMITIVE,
    .jvp = mr_jvp_linear,
    .batch = reduce_sum_batch,
    .sample = reduce_sum_sample,
    .name = "reduce_sum",
    .n_in = 1,
    .n_out = 1,
    .shape = reduce_sum_shape,
    .vjp = reduce_sum_vjp,
    .amp = MR_AMP_WIDE,
    .unit = mr__reduce_unit,
    .widens = true,
};
