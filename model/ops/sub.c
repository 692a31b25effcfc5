#include <math.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_sub(mr_fn_t *f, mr_var_t *a, mr_var_t *b) {
  return mr_emit1(f, &mr_op_sub, 2, (mr_var_t *[]){a, b}, 0, NULL);
}

static float sub_f2(float a, float b) { return a - b; }
static double sub_d2(double a, double b) { return a - b; }
static int64_t sub_i2(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }

static mr_err_t sub_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] = mr_unbroadcast(f, dout[0], e->in[0]);
  if (!e->in[1]->literal) din[1] = mr_unbroadcast(f, mr_lax_neg(f, dout[0]), e->in[1]);
  return mr_rule_done(f);
}

static mr_err_t sub_jvp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout) {
  mr_var_t *a = mr_tangent_spread(f, e, din[0]), *b = mr_tangent_spread(f, e, din[1]);
  dout[0] = !b ? a : a ? mr_lax_sub(f, a, b) : mr_lax_neg(f, b);
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_sub = {
    MR_RULES_POINTWISE,
    .name = "sub",
    .n_in = 2,
    .n_out = 1,
    .shape = mr_shape_pointwise,
    .jvp = sub_jvp,
    .vjp = sub_vjp,
    .sample = mr_sample_binary,
    .amp = MR_AMP_FOLLOW,
    .at = {.f2 = sub_f2, .d2 = sub_d2, .i2 = sub_i2, .lane = MR_LANE_SUB},
    .inplace = {3},
};
