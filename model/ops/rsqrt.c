#include <math.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_rsqrt(mr_fn_t *f, mr_var_t *x) {
  return mr_emit1(f, &mr_op_rsqrt, 1, &x, 0, NULL);
}

static float rsqrt_at(float x) { return 1.0f / sqrtf(x); }

static mr_err_t rsqrt_cpu(mr_cpu_call_t *c, mr_diag_t *diag) {
  return mr_cpu_unary(c, rsqrt_at, diag);
}

static mr_err_t rsqrt_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  /* d x^-1/2 = -1/2 x^-3/2 dx */
  mr_var_t *slope = mr_lax_scale(f, -0.5, mr_lax_div(f, e->out[0], e->in[0]));
  din[0] = mr_lax_mul(f, dout[0], slope);
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_rsqrt = {
    MR_RULES_NONE_YET,    .name = "rsqrt",        .n_in = 1,
    .n_out = 1,           .shape = mr_shape_same, .vjp = rsqrt_vjp,
    .amp = MR_AMP_FOLLOW, .cpu = rsqrt_cpu,       .inplace = {1},
};
