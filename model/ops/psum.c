#include "model/ops/axis.h"
#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_psum(mr_fn_t *f, mr_var_t *x, const char *axis_name) {
  mr_attr_t axis = mr_attr_text("axis_name", mr_mem_text(&f->mem, axis_name));
  return mr_emit1(f, &mr_op_psum, 1, &x, 1, &axis);
}

mr_var_t *mr_lax_pmean(mr_fn_t *f, mr_var_t *x, const char *axis_name) {
  if (!x) return NULL;
  mr_var_t *n = mr_lax_psum(f, mr_literal(f, x->aval.dtype, 1), axis_name);
  return mr_lax_div(f, mr_lax_psum(f, x, axis_name), n);
}

/* The transpose of a sum that all examples get is the sum of what they send back. */
static mr_err_t psum_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] = mr_lax_psum(f, dout[0], mr_attr_get(e, "axis_name")->text);
  return mr_rule_done(f);
}

static mr_err_t psum_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                           mr_batched_t *out) {
  if (!mr_axis_bound(f, e)) return mr_batch_pointwise(f, e, in, out);
  out[0].axis = -1;
  out[0].var = in[0].axis < 0 ? mr_lax_scale(f, (double)f->axis_size, in[0].var)
                              : mr_lax_reduce_sum(f, in[0].var, 1, &in[0].axis);
  return mr_rule_done(f);
}

/* x psum(sin(x)) + pmean(x) */
static bool psum_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 0) return false;
  mr_fn_t *b = mr_fn_create();
  mr_var_t *x = mr_fn_input(b, mr_aval_of(MR_F32, 2));
  mr_var_t *y = mr_lax_mul(b, x, mr_lax_psum(b, mr_lax_sin(b, x), "i"));
  return mr__axis_sample(s, b, mr_lax_add(b, y, mr_lax_pmean(b, x, "i")));
}

const mr_op_def_t mr_op_psum = {
    MR_RULES_PRIMITIVE,   .name = "psum",          .n_in = 1,
    .n_out = 1,           .shape = mr_shape_same,  .jvp = mr_jvp_linear,
    .vjp = psum_vjp,      .batch = psum_batch,     .sample = psum_sample,
    .amp = MR_AMP_FOLLOW, .cpu = mr__axis_unbound, .collective = true,
};
