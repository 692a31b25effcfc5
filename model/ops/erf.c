#include <math.h>

#include "base/erf.h"
#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_erf(mr_fn_t *f, mr_var_t *x) { return mr_emit1(f, &mr_op_erf, 1, &x, 0, NULL); }

static mr_err_t erf_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  /* d erf(x) = 2/sqrt(pi) exp(-x^2) dx */
  mr_var_t *bell = mr_lax_exp(f, mr_lax_neg(f, mr_lax_integer_pow(f, e->in[0], 2)));
  din[0] = mr_lax_mul(f, dout[0], mr_lax_scale(f, 1.1283791670955126, bell));
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_erf = {
    MR_RULES_POINTWISE,
    .name = "erf",
    .n_in = 1,
    .n_out = 1,
    .shape = mr_shape_same,
    .jvp = mr_jvp_symmetric,
    .vjp = erf_vjp,
    .sample = mr_sample_unary,
    .amp = MR_AMP_FOLLOW,
    .at = {.f1 = mr_erf, .d1 = erf, .lane = MR_LANE_ERF},
    .inplace = {1},
};
