#include <math.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_eq(mr_fn_t *f, mr_var_t *a, mr_var_t *b) {
  return mr_emit1(f, &mr_op_eq, 2, (mr_var_t *[]){a, b}, 0, NULL);
}

static mr_err_t eq_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  MR_TRY(mr_shape_pointwise(e, out, diag));
  out[0].dtype = MR_BOOL;
  return MR_OK;
}

static float eq_at(float a, float b) { return a == b; }

static mr_err_t eq_cpu(mr_cpu_call_t *c, mr_diag_t *diag) { return mr_cpu_binary(c, eq_at, diag); }

static mr_err_t eq_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] = din[1] = NULL; /* constant almost everywhere */
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_eq = {
    MR_RULES_NONE_YET, .name = "eq",         .n_in = 2,     .n_out = 1, .shape = eq_shape,
    .vjp = eq_vjp,     .amp = MR_AMP_FOLLOW, .cpu = eq_cpu,
};
