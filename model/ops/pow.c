/* Powers, element by element: a^b of two floating-point values, and x^y for an integer attribute y.
 */
#include <math.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_pow(mr_fn_t *f, mr_var_t *a, mr_var_t *b) {
  return mr_emit1(f, &mr_op_pow, 2, (mr_var_t *[]){a, b}, 0, NULL);
}

/* The slope by operand i of d a^b = b a^(b-1) da + log(a) a^b db.  log(0) counts as 0, as in jax:
   0^b is constant for b > 0. */
static mr_var_t *pow_slope(mr_fn_t *f, const mr_eqn_t *e, int i) {
  mr_var_t *a = e->in[0], *b = e->in[1];
  if (i) {
    mr_var_t *zero = mr_lax_eq(f, a, mr_literal(f, a->aval.dtype, 0));
    a = mr_lax_select_n(f, zero, a, mr_lax_full(f, &a->aval, 1));
    return mr_lax_mul(f, mr_lax_log(f, a), e->out[0]);
  }
  mr_var_t *less = mr_lax_sub(f, b, mr_literal(f, b->aval.dtype, 1));
  return mr_lax_mul(f, b, mr_lax_pow(f, a, less));
}

static mr_err_t pow_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  for (int i = 0; i < 2; i++)
    if (!e->in[i]->literal)
      din[i] = mr_unbroadcast(f, mr_lax_mul(f, dout[0], pow_slope(f, e, i)), e->in[i]);
  return mr_rule_done(f);
}

static mr_err_t pow_jvp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout) {
  for (int i = 0; i < 2; i++)
    if (din[i]) dout[0] = mr_tangent_add(f, dout[0], mr_lax_mul(f, pow_slope(f, e, i), din[i]));
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_pow = {
    MR_RULES_POINTWISE,
    .name = "pow",
    .n_in = 2,
    .n_out = 1,
    .shape = mr_shape_pointwise,
    .sample = mr_sample_binary_positive,
    .ad = {.jvp = pow_jvp, .vjp = pow_vjp},
    .reuse = {.of = {3}},
    .amp = {MR_AMP_FOLLOW},
    .cpu = {.f2 = powf, .d2 = pow},
    .device = {.real = "pow(a, b)"},
};

/* ---- integer_pow: the slope's exponent y - 1 and factor y stay exact ---- */

static mr_var_t *raise_to(mr_fn_t *f, mr_var_t *x, int64_t y) {
  return mr_emit1(f, &mr_op_integer_pow, 1, &x, 1, (mr_attr_t[]){mr_attr_int("y", y)});
}

mr_var_t *mr_lax_integer_pow(mr_fn_t *f, mr_var_t *x, int y) { return raise_to(f, x, y); }

static mr_err_t integer_pow_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const int64_t most = (int64_t)1 << 53; /* so that the slope's factor y is exact in a double */
  bool whole = !mr_is_float(e->in[0]->aval.dtype);
  int64_t y = mr_attr_get(e, "y")->i[0];
  MR_TRY(mr_check_numbers(e, diag));
  if (y < -most || y > most) return mr_shape_fail(e, diag, "want a power from -2^53 to 2^53");
  if (whole && y < 0) return mr_shape_fail(e, diag, "integers want a power >= 0");
  return mr_shape_same(e, out, diag);
}

static mr_err_t integer_pow_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout,
                                mr_var_t **din) {
  int64_t y = mr_attr_get(e, "y")->i[0];
  mr_var_t *x = e->in[0];
  if (y == 0) return MR_OK;
  mr_var_t *slope = y == 1   ? mr_literal(f, x->aval.dtype, 1)
                    : y == 2 ? mr_lax_scale(f, 2, x)
                             : mr_lax_scale(f, (double)y, raise_to(f, x, y - 1));
  din[0] = mr_lax_mul(f, dout[0], slope);
  return mr_rule_done(f);
}

static bool power_unit(const mr_eqn_t *e, mr_unit_t *u) {
  u->kind = MR_UNIT_EACH;
  return !mr_is_storage(e->in[0]->aval.dtype);
}

static bool integer_pow_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  const int powers[] = {2, 3, 1, -2, 0};
  if (k > 4) return false;
  return mr_sample_done(s, mr_lax_integer_pow(s->f, mr_sample_f32(s, 0.6, 1.9, 2, 3), powers[k]));
}

const mr_op_def_t mr_op_integer_pow = {
    MR_RULES_PRIMITIVE,
    .batch = mr_batch_pointwise,
    .sample = integer_pow_sample,
    .name = "integer_pow",
    .n_in = 1,
    .n_out = 1,
    .shape = integer_pow_shape,
    .ad = {.jvp = mr_jvp_symmetric, .vjp = integer_pow_vjp},
    .fuse = {.unit = power_unit, .view = mr_view_each},
    .reuse = {.of = {1}},
    .amp = {MR_AMP_FOLLOW},
    .shard = {mr_shard_each},
};
