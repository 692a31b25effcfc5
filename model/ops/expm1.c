#include <math.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_expm1(mr_fn_t *f, mr_var_t *x) {
  return mr_emit1(f, &mr_op_expm1, 1, &x, 0, NULL);
}

static mr_err_t expm1_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  mr_var_t *slope = mr_lax_add(f, e->out[0], mr_literal(f, e->out[0]->aval.dtype, 1));
  din[0] = mr_lax_mul(f, dout[0], slope);
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_expm1 = {
    MR_RULES_POINTWISE,
    .name = "expm1",
    .n_in = 1,
    .n_out = 1,
    .shape = mr_shape_same,
    .jvp = mr_jvp_symmetric,
    .vjp = expm1_vjp,
    .sample = mr_sample_unary,
    .amp = MR_AMP_FOLLOW,
    .at = {.f1 = expm1f, .d1 = expm1},
    .inplace = {1},
};
