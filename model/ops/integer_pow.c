#include "model/backends/cpu/program.h"
#include "model/ops/lax.h"
#include "model/ops/rules.h"

static mr_var_t *raised(mr_fn_t *f, mr_var_t *x, int64_t y) {
  return mr_emit1(f, &mr_op_integer_pow, 1, &x, 1, (mr_attr_t[]){mr_attr_int("y", y)});
}

mr_var_t *mr_lax_integer_pow(mr_fn_t *f, mr_var_t *x, int y) { return raised(f, x, y); }

static double power(double x, int64_t y) {
  double r = 1;
  for (uint64_t n = y < 0 ? 0 - (uint64_t)y : (uint64_t)y; n; n >>= 1, x *= x)
    if (n & 1) r *= x;
  return y < 0 ? 1 / r : r;
}

static void power_run(const mr_unit_t *u, const void *const *in, void *out, int64_t n) {
  mr_dtype_t t = u->eqn->out[0]->aval.dtype;
  int64_t y = mr_attr_get(u->eqn, "y")->i[0];
  for (int64_t i = 0; i < n; i++)
    mr_set_f64(t, out, i, power(mr_get_f64(t, in[0], i * u->step[0]), y));
}

/* As wide as a product can be, and then cut: integers wrap. */
static void whole_run(const mr_unit_t *u, const void *const *in, void *out, int64_t n) {
  mr_dtype_t t = u->eqn->out[0]->aval.dtype;
  for (int64_t i = 0; i < n; i++) {
    uint64_t x = (uint64_t)mr_get_i64(t, in[0], i * u->step[0]), r = 1;
    for (int64_t y = mr_attr_get(u->eqn, "y")->i[0]; y; y >>= 1, x *= x)
      if (y & 1) r *= x;
    mr_set_i64(t, out, i, (int64_t)r);
  }
}

static mr_err_t integer_pow_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const int64_t most = (int64_t)1 << 53; /* a factor that a double holds */
  bool whole = !mr_is_float(e->in[0]->aval.dtype);
  int64_t y = mr_attr_get(e, "y")->i[0];
  MR_TRY(mr_check_numbers(e, diag));
  if (y < -most || y > most) return mr_shape_fail(e, diag, "want a power from -2^53 to 2^53");
  if (whole && y < 0) return mr_shape_fail(e, diag, "integers want a power >= 0");
  return mr_shape_same(e, out, diag);
}

static void square_run(const mr_unit_t *u, const void *const *in, void *out, int64_t n) {
  mr__lanes()->at[MR_LANE_MUL](u->eqn->out[0]->aval.dtype, in[0], u->step[0], in[0], u->step[0],
                               out, n);
}

/* x^3 and x^4 in f32; larger powers, and those of other floats, in f64. */
static void small_run(const mr_unit_t *u, const void *const *in, void *out, int64_t n) {
  const float *x = in[0];
  float *y = out;
  int64_t step = u->step[0];
  if (mr_attr_get(u->eqn, "y")->i[0] == 3)
    for (int64_t i = 0; i < n; i++) y[i] = x[i * step] * x[i * step] * x[i * step];
  else
    for (int64_t i = 0; i < n; i++) {
      float square = x[i * step] * x[i * step];
      y[i] = square * square;
    }
}

static bool integer_pow_unit(mr_unit_t *u) {
  int64_t y = mr_attr_get(u->eqn, "y")->i[0];
  mr_dtype_t t = u->eqn->out[0]->aval.dtype;
  u->kind = MR_UNIT_EACH;
  u->run = y == 2 && (t == MR_F32 || t == MR_BF16) ? square_run
           : (y == 3 || y == 4) && t == MR_F32     ? small_run
           : !mr_is_float(t)                       ? whole_run
                                                   : power_run;
  return true;
}

static mr_err_t integer_pow_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout,
                                mr_var_t **din) {
  int64_t y = mr_attr_get(e, "y")->i[0];
  mr_var_t *x = e->in[0];
  if (y == 0) return MR_OK;
  mr_var_t *slope = y == 1   ? mr_literal(f, x->aval.dtype, 1)
                    : y == 2 ? mr_lax_scale(f, 2, x)
                             : mr_lax_scale(f, (double)y, raised(f, x, y - 1));
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
    .shape = integer_pow_shape,
    .vjp = integer_pow_vjp,
    .amp = MR_AMP_FOLLOW,
    .cpu = mr__program_one,
    .unit = integer_pow_unit,
    .view = mr_view_each,
    .inplace = {1},
};
