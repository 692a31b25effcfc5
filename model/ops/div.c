#include <math.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_div(mr_fn_t *f, mr_var_t *a, mr_var_t *b) {
  return mr_emit1(f, &mr_op_div, 2, (mr_var_t *[]){a, b}, 0, NULL);
}

static float div_f2(float a, float b) { return a / b; }
static double div_d2(double a, double b) { return a / b; }
/* By zero: -1, as in jax. */
static int64_t div_i2(int64_t a, int64_t b) {
  return b == 0 ? -1 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}
static uint64_t div_u2(uint64_t a, uint64_t b) { return b ? a / b : UINT64_MAX; }

static mr_err_t div_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  mr_var_t *a = e->in[0], *b = e->in[1], *da = mr_lax_div(f, dout[0], b);
  din[0] = mr_unbroadcast(f, da, a);
  if (!b->literal) din[1] = mr_unbroadcast(f, mr_lax_neg(f, mr_lax_mul(f, da, e->out[0])), b);
  return mr_rule_done(f);
}

/* d(a/b) = (da - y db) / b */
static mr_err_t div_jvp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout) {
  mr_var_t *a = mr_tangent_spread(f, e, din[0]), *b = mr_tangent_spread(f, e, din[1]);
  if (b) b = mr_lax_mul(f, e->out[0], b);
  mr_var_t *top = !b ? a : a ? mr_lax_sub(f, a, b) : mr_lax_neg(f, b);
  dout[0] = mr_lax_div(f, top, e->in[1]);
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_div = {
    MR_RULES_POINTWISE,
    .name = "div",
    .n_in = 2,
    .n_out = 1,
    .shape = mr_shape_pointwise,
    .jvp = div_jvp,
    .vjp = div_vjp,
    .sample = mr_sample_binary_positive,
    .amp = MR_AMP_FOLLOW,
    .at = {.f2 = div_f2, .d2 = div_d2, .i2 = div_i2, .u2 = div_u2, .lane = MR_LANE_DIV},
    .inplace = {3},
};
