#include "model/ops/add.h"

#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_add(mr_fn_t *f, mr_var_t *a, mr_var_t *b) {
  return mr_emit1(f, &mr_op_add, 2, (mr_var_t *[]){a, b}, 0, NULL);
}

mr_err_t mr__add_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  for (int i = 0; i < 2; i++) din[i] = mr_unbroadcast(f, dout[0], e->in[i]);
  return mr_rule_done(f);
}

mr_err_t mr__add_jvp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout) {
  dout[0] = mr_tangent_add(f, mr_tangent_spread(f, e, din[0]), mr_tangent_spread(f, e, din[1]));
  return mr_rule_done(f);
}

float mr__add_f2(float a, float b) { return a + b; }
double mr__add_d2(double a, double b) { return a + b; }
int64_t mr__add_i2(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }

const mr_op_def_t mr_op_add = {
    .at = {.f2 = mr__add_f2, .d2 = mr__add_d2, .i2 = mr__add_i2, .lane = MR_LANE_ADD},
    MR_RULES_PRIMITIVE,
    .jvp = mr__add_jvp,
    .batch = mr_batch_pointwise,
    .sample = mr_sample_binary,
    .name = "add",
    .n_in = 2,
    .n_out = 1,
    .shape = mr_shape_pointwise,
    .vjp = mr__add_vjp,
    .amp = MR_AMP_FOLLOW,
    .cpu = mr_cpu_pointwise,
    .unit = mr_unit_pointwise,
    .view = mr_view_each,
    .inplace = {3},
    .mixes = true,
};
