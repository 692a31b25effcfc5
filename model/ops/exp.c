#include <math.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_exp(mr_fn_t *f, mr_var_t *x) { return mr_emit1(f, &mr_op_exp, 1, &x, 0, NULL); }

static float exp_at(float x) { return expf(x); }

static mr_err_t exp_cpu(mr_cpu_call_t *c, mr_diag_t *diag) { return mr_cpu_unary(c, exp_at, diag); }

static mr_err_t exp_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] = mr_lax_mul(f, dout[0], e->out[0]);
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_exp = {
    MR_RULES_NONE_YET, .name = "exp",        .n_in = 1,      .n_out = 1,     .shape = mr_shape_same,
    .vjp = exp_vjp,    .amp = MR_AMP_FOLLOW, .cpu = exp_cpu, .inplace = {1},
};
