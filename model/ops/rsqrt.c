#include <math.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_rsqrt(mr_fn_t *f, mr_var_t *x) {
  return mr_emit1(f, &mr_op_rsqrt, 1, &x, 0, NULL);
}

static float rsqrt_f1(float x) { return 1.0f / sqrtf(x); }
static double rsqrt_d1(double x) { return 1.0 / sqrt(x); }

static mr_err_t rsqrt_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  /* d x^-1/2 = -1/2 x^-3/2 dx */
  mr_var_t *slope = mr_lax_scale(f, -0.5, mr_lax_div(f, e->out[0], e->in[0]));
  din[0] = mr_lax_mul(f, dout[0], slope);
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_rsqrt = {
    MR_RULES_POINTWISE,
    .name = "rsqrt",
    .n_in = 1,
    .n_out = 1,
    .shape = mr_shape_same,
    .jvp = mr_jvp_symmetric,
    .vjp = rsqrt_vjp,
    .sample = mr_sample_unary_positive,
    .amp = MR_AMP_FOLLOW,
    .at = {.f1 = rsqrt_f1, .d1 = rsqrt_d1, .lane = MR_LANE_RSQRT},
    .inplace = {1},
};
