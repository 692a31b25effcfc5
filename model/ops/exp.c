#include <math.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_exp(mr_fn_t *f, mr_var_t *x) { return mr_emit1(f, &mr_op_exp, 1, &x, 0, NULL); }

static mr_err_t exp_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] = mr_lax_mul(f, dout[0], e->out[0]);
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_exp = {
    MR_RULES_POINTWISE,
    .name = "exp",
    .n_in = 1,
    .n_out = 1,
    .shape = mr_shape_same,
    .jvp = mr_jvp_symmetric,
    .vjp = exp_vjp,
    .sample = mr_sample_unary,
    .amp = MR_AMP_FOLLOW,
    .at = {.f1 = expf, .d1 = exp, .lane = MR_LANE_EXP},
    .inplace = {1},
};
