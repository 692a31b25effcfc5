#include <math.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_sqrt(mr_fn_t *f, mr_var_t *x) { return mr_emit1(f, &mr_op_sqrt, 1, &x, 0, NULL); }

static float sqrt_at(float x) { return sqrtf(x); }

static mr_err_t sqrt_cpu(mr_cpu_call_t *c, mr_diag_t *diag) {
  return mr_cpu_unary(c, sqrt_at, diag);
}

static mr_err_t sqrt_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] = mr_lax_div(f, mr_lax_scale(f, 0.5, dout[0]), e->out[0]);
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_sqrt = {
    MR_RULES_NONE_YET,    .name = "sqrt",         .n_in = 1,
    .n_out = 1,           .shape = mr_shape_same, .vjp = sqrt_vjp,
    .amp = MR_AMP_FOLLOW, .cpu = sqrt_cpu,        .inplace = {1},
};
