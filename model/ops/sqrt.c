#include <math.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_sqrt(mr_fn_t *f, mr_var_t *x) { return mr_emit1(f, &mr_op_sqrt, 1, &x, 0, NULL); }

static mr_err_t sqrt_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] = mr_lax_div(f, mr_lax_scale(f, 0.5, dout[0]), e->out[0]);
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_sqrt = {
    MR_RULES_POINTWISE,
    .name = "sqrt",
    .n_in = 1,
    .n_out = 1,
    .shape = mr_shape_same,
    .jvp = mr_jvp_symmetric,
    .vjp = sqrt_vjp,
    .sample = mr_sample_unary_positive,
    .amp = MR_AMP_FOLLOW,
    .at = {.f1 = sqrtf, .d1 = sqrt, .lane = MR_LANE_SQRT},
    .inplace = {1},
};
