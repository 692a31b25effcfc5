#include <math.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_sign(mr_fn_t *f, mr_var_t *x) { return mr_emit1(f, &mr_op_sign, 1, &x, 0, NULL); }

static float sign_at(float x) { return x > 0 ? 1.0f : x < 0 ? -1.0f : x; } /* NaN and -0 stay */

static mr_err_t sign_cpu(mr_cpu_call_t *c, mr_diag_t *diag) {
  return mr_cpu_unary(c, sign_at, diag);
}

/* Flat on both sides: no cotangent reaches x. */
static mr_err_t sign_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  return MR_OK;
}

const mr_op_def_t mr_op_sign = {
    MR_RULES_NONE_YET,    .name = "sign",         .n_in = 1,
    .n_out = 1,           .shape = mr_shape_same, .vjp = sign_vjp,
    .amp = MR_AMP_FOLLOW, .cpu = sign_cpu,        .inplace = {1},
};
