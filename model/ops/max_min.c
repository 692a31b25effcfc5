/* The larger and the smaller of two values.  The selected operand gets the whole cotangent; equal
   operands get half each, as in jax. */
#include <math.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"

/* Sets the share of each operand in a cotangent or tangent: 0 or 1, 1/2 if they are equal, and 0
   for both if one is NaN. */
static void set_shares(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *share[2]) {
  mr_dtype_t t = e->out[0]->aval.dtype;
  mr_var_t *ma = mr_lax_convert(f, mr_lax_eq(f, e->in[0], e->out[0]), t);
  mr_var_t *mb = mr_lax_convert(f, mr_lax_eq(f, e->in[1], e->out[0]), t);
  mr_var_t *one = mr_literal(f, t, 1);
  share[0] = mr_lax_div(f, ma, mr_lax_add(f, mb, one));
  share[1] = mr_lax_div(f, mb, mr_lax_add(f, ma, one));
}

static mr_err_t tie_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  mr_var_t *share[2];
  set_shares(f, e, share);
  for (int i = 0; i < 2; i++)
    din[i] = mr_unbroadcast(f, mr_lax_mul(f, dout[0], share[i]), e->in[i]);
  return mr_rule_done(f);
}

/* Where the operands are equal, each passes on half of its tangent, as in JAX. */
static mr_err_t tie_jvp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout) {
  mr_var_t *share[2];
  set_shares(f, e, share);
  for (int i = 0; i < 2; i++)
    if (din[i]) dout[0] = mr_tangent_add(f, dout[0], mr_lax_mul(f, share[i], din[i]));
  return mr_rule_done(f);
}

#define EXTREMUM                                                            \
  MR_RULES_POINTWISE, .n_in = 2, .n_out = 1, .shape = mr_shape_pointwise,   \
                      .ad = {tie_jvp, tie_vjp}, .sample = mr_sample_binary, \
                      .amp = {MR_AMP_FOLLOW}, .reuse = {.of = {3}}

mr_var_t *mr_lax_max(mr_fn_t *f, mr_var_t *a, mr_var_t *b) {
  return mr_emit1(f, &mr_op_max, 2, (mr_var_t *[]){a, b}, 0, NULL);
}

static float max_f2(float a, float b) { return a > b || isnan(a) ? a : b; }
static double max_d2(double a, double b) { return a > b || isnan(a) ? a : b; }
static int64_t max_i2(int64_t a, int64_t b) { return a > b ? a : b; }
static uint64_t max_u2(uint64_t a, uint64_t b) { return a > b ? a : b; }

const mr_op_def_t mr_op_max = {
    EXTREMUM,
    .name = "max",
    .cpu = {.f2 = max_f2, .d2 = max_d2, .i2 = max_i2, .u2 = max_u2, .bools = true},
    .device = {.real = "a > b || a != a ? a : b", .whole = "a > b ? a : b"},
};

mr_var_t *mr_lax_min(mr_fn_t *f, mr_var_t *a, mr_var_t *b) {
  return mr_emit1(f, &mr_op_min, 2, (mr_var_t *[]){a, b}, 0, NULL);
}

static float min_f2(float a, float b) { return a < b || isnan(a) ? a : b; }
static double min_d2(double a, double b) { return a < b || isnan(a) ? a : b; }
static int64_t min_i2(int64_t a, int64_t b) { return a < b ? a : b; }
static uint64_t min_u2(uint64_t a, uint64_t b) { return a < b ? a : b; }

const mr_op_def_t mr_op_min = {
    EXTREMUM,
    .name = "min",
    .cpu = {.f2 = min_f2, .d2 = min_d2, .i2 = min_i2, .u2 = min_u2, .bools = true},
    .device = {.real = "a < b || a != a ? a : b", .whole = "a < b ? a : b"},
};
