#include <math.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_log(mr_fn_t *f, mr_var_t *x) { return mr_emit1(f, &mr_op_log, 1, &x, 0, NULL); }

static mr_err_t log_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] = mr_lax_div(f, dout[0], e->in[0]);
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_log = {
    MR_RULES_POINTWISE,
    .name = "log",
    .n_in = 1,
    .n_out = 1,
    .shape = mr_shape_same,
    .jvp = mr_jvp_symmetric,
    .vjp = log_vjp,
    .sample = mr_sample_unary_positive,
    .amp = MR_AMP_FOLLOW,
    .at = {.f1 = logf, .d1 = log, .lane = MR_LANE_LOG},
    .inplace = {1},
};
