#include "model/ops/add.h"

#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_add(mr_fn_t *f, mr_var_t *a, mr_var_t *b) {
  return mr_emit1(f, &mr_op_add, 2, (mr_var_t *[]){a, b}, 0, NULL);
}

static bool fused(const mr_aval_t *a) { return a->dtype == MR_F32 || a->dtype == MR_BF16; }

static void add_run(const mr_cpu_call_t *c) {
  const mr_var_t *a = c->eqn->in[0], *b = c->eqn->in[1], *out = c->eqn->out[0];
  mr_add(a->aval.dtype, c->in[0], b->aval.dtype, c->in[1], out->aval.dtype, c->out[0],
         mr_aval_elems(&out->aval));
}

mr_err_t mr__add_cpu(mr_cpu_call_t *c, mr_diag_t *diag) {
  const mr_aval_t *a = &c->eqn->in[0]->aval, *b = &c->eqn->in[1]->aval;
  if (!mr_aval_same_shape(a, b) || !fused(a) || !fused(b)) return mr_cpu_pointwise(c, diag);
  c->run = add_run;
  return MR_OK;
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
    .at = {.f2 = mr__add_f2, .d2 = mr__add_d2, .i2 = mr__add_i2},
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
    .cpu = mr__add_cpu,
    .inplace = {3},
    .mixes = true,
};
