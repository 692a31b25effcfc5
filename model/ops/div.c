#include <math.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_div(mr_fn_t *f, mr_var_t *a, mr_var_t *b) {
  return mr_emit1(f, &mr_op_div, 2, (mr_var_t *[]){a, b}, 0, NULL);
}

static float div_at(float a, float b) { return a / b; }

static mr_err_t div_cpu(mr_cpu_call_t *c, mr_diag_t *diag) {
  return mr_cpu_binary(c, div_at, diag);
}

static mr_err_t div_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  mr_var_t *a = e->in[0], *b = e->in[1], *da = mr_lax_div(f, dout[0], b);
  din[0] = mr_unbroadcast(f, da, a);
  if (!b->literal) din[1] = mr_unbroadcast(f, mr_lax_neg(f, mr_lax_mul(f, da, e->out[0])), b);
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_div = {
    MR_RULES_NONE_YET,
    .name = "div",
    .n_in = 2,
    .n_out = 1,
    .shape = mr_shape_pointwise,
    .vjp = div_vjp,
    .amp = MR_AMP_FOLLOW,
    .cpu = div_cpu,
    .inplace = {3},
};
