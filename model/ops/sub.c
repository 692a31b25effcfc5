#include <math.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_sub(mr_fn_t *f, mr_var_t *a, mr_var_t *b) {
  return mr_emit1(f, &mr_op_sub, 2, (mr_var_t *[]){a, b}, 0, NULL);
}

static float sub_at(float a, float b) { return a - b; }

static mr_err_t sub_cpu(mr_cpu_call_t *c, mr_diag_t *diag) {
  return mr_cpu_binary(c, sub_at, diag);
}

static mr_err_t sub_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] = mr_unbroadcast(f, dout[0], e->in[0]);
  if (!e->in[1]->literal) din[1] = mr_unbroadcast(f, mr_lax_neg(f, dout[0]), e->in[1]);
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_sub = {
    MR_RULES_NONE_YET,
    .name = "sub",
    .n_in = 2,
    .n_out = 1,
    .shape = mr_shape_pointwise,
    .vjp = sub_vjp,
    .amp = MR_AMP_FOLLOW,
    .cpu = sub_cpu,
    .inplace = {3},
};
