#include <math.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_mul(mr_fn_t *f, mr_var_t *a, mr_var_t *b) {
  return mr_emit1(f, &mr_op_mul, 2, (mr_var_t *[]){a, b}, 0, NULL);
}

static float mul_at(float a, float b) { return a * b; }

static mr_err_t mul_cpu(mr_cpu_call_t *c, mr_diag_t *diag) {
  return mr_cpu_binary(c, mul_at, diag);
}

static mr_err_t mul_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  mr_var_t *a = e->in[0], *b = e->in[1];
  if (!a->literal) din[0] = mr_unbroadcast(f, mr_lax_mul(f, dout[0], b), a);
  if (!b->literal) din[1] = mr_unbroadcast(f, mr_lax_mul(f, dout[0], a), b);
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_mul = {
    MR_RULES_NONE_YET,
    .name = "mul",
    .n_in = 2,
    .n_out = 1,
    .shape = mr_shape_pointwise,
    .vjp = mul_vjp,
    .amp = MR_AMP_FOLLOW,
    .cpu = mul_cpu,
    .inplace = {3},
};

mr_var_t *mr_lax_scale(mr_fn_t *f, double s, mr_var_t *x) {
  return x ? mr_lax_mul(f, mr_literal(f, x->aval.dtype, s), x) : NULL;
}
