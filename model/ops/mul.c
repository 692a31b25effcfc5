#include <math.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_mul(mr_fn_t *f, mr_var_t *a, mr_var_t *b) {
  return mr_emit1(f, &mr_op_mul, 2, (mr_var_t *[]){a, b}, 0, NULL);
}

static float mul_f2(float a, float b) { return a * b; }
static double mul_d2(double a, double b) { return a * b; }
static int64_t mul_i2(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }

static mr_err_t mul_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  mr_var_t *a = e->in[0], *b = e->in[1];
  if (!a->literal) din[0] = mr_unbroadcast(f, mr_lax_mul(f, dout[0], b), a);
  if (!b->literal) din[1] = mr_unbroadcast(f, mr_lax_mul(f, dout[0], a), b);
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_mul = {
    MR_RULES_POINTWISE,
    .name = "mul",
    .n_in = 2,
    .n_out = 1,
    .shape = mr_shape_pointwise,
    .jvp = mr_jvp_product,
    .vjp = mul_vjp,
    .sample = mr_sample_binary,
    .amp = MR_AMP_FOLLOW,
    .at = {.f2 = mul_f2, .d2 = mul_d2, .i2 = mul_i2, .lane = MR_LANE_MUL},
    .inplace = {3},
};

mr_var_t *mr_lax_scale(mr_fn_t *f, double s, mr_var_t *x) {
  return x ? mr_lax_mul(f, mr_literal(f, x->aval.dtype, s), x) : NULL;
}
