#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_integer_pow(mr_fn_t *f, mr_var_t *x, int y) {
  return mr_emit1(f, &mr_op_integer_pow, 1, &x, 1, (mr_attr_t[]){mr_attr_int("y", y)});
}

static double power(double x, int64_t y) {
  double r = 1;
  for (uint64_t n = (uint64_t)(y < 0 ? -y : y); n; n >>= 1, x *= x)
    if (n & 1) r *= x;
  return y < 0 ? 1 / r : r;
}

static void integer_pow_run(const mr_cpu_call_t *c) {
  const mr_aval_t *a = &c->eqn->out[0]->aval;
  int64_t n = mr_aval_elems(a), y = mr_attr_get(c->eqn, "y")->i[0];
  for (int64_t i = 0; i < n; i++)
    mr_cpu_set_f64(a->dtype, c->out[0], i, power(mr_cpu_get_f64(a->dtype, c->in[0], i), y));
}

static mr_err_t integer_pow_cpu(mr_cpu_call_t *c, mr_diag_t *diag) {
  c->run = integer_pow_run;
  return MR_OK;
}

static mr_err_t integer_pow_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout,
                                mr_var_t **din) {
  int y = (int)mr_attr_get(e, "y")->i[0];
  mr_var_t *x = e->in[0];
  if (y == 0) return MR_OK;
  mr_var_t *slope = y == 1   ? mr_literal(f, x->aval.dtype, 1)
                    : y == 2 ? mr_lax_scale(f, 2, x)
                             : mr_lax_scale(f, y, mr_lax_integer_pow(f, x, y - 1));
  din[0] = mr_lax_mul(f, dout[0], slope);
  return mr_rule_done(f);
}

static bool integer_pow_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  const int powers[] = {2, 3, 1, -2, 0};
  if (k > 4) return false;
  return mr_sample_done(s, mr_lax_integer_pow(s->f, mr_sample_f32(s, 0.6, 1.9, 2, 3), powers[k]));
}

const mr_op_def_t mr_op_integer_pow = {
    MR_RULES_PRIMITIVE,
    .jvp = mr_jvp_symmetric,
    .batch = mr_batch_pointwise,
    .sample = integer_pow_sample,
    .name = "integer_pow",
    .n_in = 1,
    .n_out = 1,
    .shape = mr_shape_same,
    .vjp = integer_pow_vjp,
    .amp = MR_AMP_FOLLOW,
    .cpu = integer_pow_cpu,
    .inplace = {1},
};
