#include <math.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_logistic(mr_fn_t *f, mr_var_t *x) {
  return mr_emit1(f, &mr_op_logistic, 1, &x, 0, NULL);
}

static float logistic_f1(float x) { return 1.0f / (1.0f + expf(-x)); }
static double logistic_d1(double x) { return 1.0 / (1.0 + exp(-x)); }

static mr_err_t logistic_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  /* dx = g y (1 - y) */
  mr_var_t *y = e->out[0], *rest = mr_lax_sub(f, mr_literal(f, y->aval.dtype, 1), y);
  din[0] = mr_lax_mul(f, dout[0], mr_lax_mul(f, y, rest));
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_logistic = {
    MR_RULES_POINTWISE,
    .name = "logistic",
    .n_in = 1,
    .n_out = 1,
    .shape = mr_shape_same,
    .jvp = mr_jvp_symmetric,
    .vjp = logistic_vjp,
    .sample = mr_sample_unary,
    .amp = MR_AMP_FOLLOW,
    .at = {.f1 = logistic_f1, .d1 = logistic_d1, .lane = MR_LANE_LOGISTIC},
    .inplace = {1},
};
