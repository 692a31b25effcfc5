#include <math.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_tanh(mr_fn_t *f, mr_var_t *x) { return mr_emit1(f, &mr_op_tanh, 1, &x, 0, NULL); }

static float tanh_at(float x) { return tanhf(x); }

static mr_err_t tanh_cpu(mr_cpu_call_t *c, mr_diag_t *diag) {
  return mr_cpu_unary(c, tanh_at, diag);
}

static mr_err_t tanh_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  /* dx = g - g y y */
  mr_var_t *gyy = mr_lax_mul(f, dout[0], mr_lax_mul(f, e->out[0], e->out[0]));
  din[0] = mr_lax_sub(f, dout[0], gyy);
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_tanh = {
    MR_RULES_NONE_YET,    .name = "tanh",         .n_in = 1,
    .n_out = 1,           .shape = mr_shape_same, .vjp = tanh_vjp,
    .amp = MR_AMP_FOLLOW, .cpu = tanh_cpu,        .inplace = {1},
};
