#include <math.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_tanh(mr_fn_t *f, mr_var_t *x) { return mr_emit1(f, &mr_op_tanh, 1, &x, 0, NULL); }

static mr_err_t tanh_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  /* dx = g (1 - y) (1 + y): near 1, 1 - y y would lose its digits. */
  mr_var_t *y = e->out[0], *one = mr_literal(f, y->aval.dtype, 1);
  mr_var_t *h = mr_lax_mul(f, dout[0], mr_lax_sub(f, one, y));
  din[0] = mr_lax_add_any(f, h, mr_lax_mul(f, h, y));
  return mr_rule_done(f);
}

static mr_err_t tanh_jvp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout) {
  mr_var_t *y = e->out[0], *one = mr_literal(f, y->aval.dtype, 1);
  mr_var_t *h = mr_lax_add(f, din[0], mr_lax_mul(f, din[0], y));
  dout[0] = mr_lax_mul(f, h, mr_lax_sub(f, one, y));
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_tanh = {
    MR_RULES_POINTWISE,
    .name = "tanh",
    .n_in = 1,
    .n_out = 1,
    .shape = mr_shape_same,
    .jvp = tanh_jvp,
    .vjp = tanh_vjp,
    .sample = mr_sample_unary,
    .amp = MR_AMP_FOLLOW,
    .at = {.f1 = tanhf, .d1 = tanh, .lane = MR_LANE_TANH},
    .inplace = {1},
};
