/* Functions of one value, element by element, each with its vjp rule.  Slopes are computed from the
   result where that is cheaper. */
#include <math.h>

#include "base/erf.h"
#include "model/ops/lax.h"
#include "model/ops/rules.h"

#define UNARY \
  MR_RULES_POINTWISE, .n_in = 1, .n_out = 1, .reuse = {.of = {1}}, .amp = {MR_AMP_FOLLOW}

mr_var_t *mr_lax_exp(mr_fn_t *f, mr_var_t *x) { return mr_emit1(f, &mr_op_exp, 1, &x, 0, NULL); }

static mr_err_t exp_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] = mr_lax_mul(f, dout[0], e->out[0]);
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_exp = {
    UNARY,
    .name = "exp",
    .shape = mr_shape_same,
    .sample = mr_sample_unary,
    .ad = {.jvp = mr_jvp_symmetric, .vjp = exp_vjp},
    .cpu = {.f1 = expf, .d1 = exp},
    .device = {.real = "exp(a)"},
};

mr_var_t *mr_lax_expm1(mr_fn_t *f, mr_var_t *x) {
  return mr_emit1(f, &mr_op_expm1, 1, &x, 0, NULL);
}

static mr_err_t expm1_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  mr_var_t *slope = mr_lax_add(f, e->out[0], mr_literal(f, e->out[0]->aval.dtype, 1));
  din[0] = mr_lax_mul(f, dout[0], slope);
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_expm1 = {
    UNARY,
    .name = "expm1",
    .shape = mr_shape_same,
    .sample = mr_sample_unary,
    .ad = {.jvp = mr_jvp_symmetric, .vjp = expm1_vjp},
    .cpu = {.f1 = expm1f, .d1 = expm1},
    .device = {.real = "expm1(a)"},
};

mr_var_t *mr_lax_log(mr_fn_t *f, mr_var_t *x) { return mr_emit1(f, &mr_op_log, 1, &x, 0, NULL); }

static mr_err_t log_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] = mr_lax_div(f, dout[0], e->in[0]);
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_log = {
    UNARY,
    .name = "log",
    .shape = mr_shape_same,
    .sample = mr_sample_unary_positive,
    .ad = {.jvp = mr_jvp_symmetric, .vjp = log_vjp},
    .cpu = {.f1 = logf, .d1 = log},
    .device = {.real = "log(a)"},
};

mr_var_t *mr_lax_log1p(mr_fn_t *f, mr_var_t *x) {
  return mr_emit1(f, &mr_op_log1p, 1, &x, 0, NULL);
}

static mr_err_t log1p_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  mr_var_t *x = e->in[0];
  din[0] = mr_lax_div(f, dout[0], mr_lax_add(f, x, mr_literal(f, x->aval.dtype, 1)));
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_log1p = {
    UNARY,
    .name = "log1p",
    .shape = mr_shape_same,
    .sample = mr_sample_unary_positive,
    .ad = {.jvp = mr_jvp_symmetric, .vjp = log1p_vjp},
    .cpu = {.f1 = log1pf, .d1 = log1p},
    .device = {.real = "log1p(a)"},
};

mr_var_t *mr_lax_sqrt(mr_fn_t *f, mr_var_t *x) { return mr_emit1(f, &mr_op_sqrt, 1, &x, 0, NULL); }

static mr_err_t sqrt_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] = mr_lax_div(f, mr_lax_scale(f, 0.5, dout[0]), e->out[0]);
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_sqrt = {
    UNARY,
    .name = "sqrt",
    .shape = mr_shape_same,
    .sample = mr_sample_unary_positive,
    .ad = {.jvp = mr_jvp_symmetric, .vjp = sqrt_vjp},
    .cpu = {.f1 = sqrtf, .d1 = sqrt},
    .device = {.real = "sqrt(a)"},
};

mr_var_t *mr_lax_rsqrt(mr_fn_t *f, mr_var_t *x) {
  return mr_emit1(f, &mr_op_rsqrt, 1, &x, 0, NULL);
}

static float rsqrt_f1(float x) { return 1.0f / sqrtf(x); }
static double rsqrt_d1(double x) { return 1.0 / sqrt(x); }

static mr_err_t rsqrt_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  /* d x^-1/2 = -1/2 x^-3/2 dx */
  mr_var_t *slope = mr_lax_scale(f, -0.5, mr_lax_div(f, e->out[0], e->in[0]));
  din[0] = mr_lax_mul(f, dout[0], slope);
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_rsqrt = {
    UNARY,
    .name = "rsqrt",
    .shape = mr_shape_same,
    .sample = mr_sample_unary_positive,
    .ad = {.jvp = mr_jvp_symmetric, .vjp = rsqrt_vjp},
    .cpu = {.f1 = rsqrt_f1, .d1 = rsqrt_d1},
    .device = {.real = "(T)1 / sqrt(a)"},
};

mr_var_t *mr_lax_tanh(mr_fn_t *f, mr_var_t *x) { return mr_emit1(f, &mr_op_tanh, 1, &x, 0, NULL); }

static mr_err_t tanh_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  /* dx = g (1 - y) (1 + y): 1 - y y would lose its digits near |y| = 1. */
  mr_var_t *y = e->out[0], *one = mr_literal(f, y->aval.dtype, 1);
  mr_var_t *h = mr_lax_mul(f, dout[0], mr_lax_sub(f, one, y));
  din[0] = mr_lax_add_any(f, h, mr_lax_mul(f, h, y));
  return mr_rule_done(f);
}

static mr_err_t tanh_jvp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout) {
  mr_var_t *y = e->out[0], *one = mr_literal(f, y->aval.dtype, 1);
  mr_var_t *h = mr_lax_add(f, din[0], mr_lax_mul(f, din[0], y));
  dout[0] = mr_lax_mul(f, h, mr_lax_sub(f, one, y));
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_tanh = {
    UNARY,
    .name = "tanh",
    .shape = mr_shape_same,
    .sample = mr_sample_unary,
    .ad = {.jvp = tanh_jvp, .vjp = tanh_vjp},
    .cpu = {.f1 = tanhf, .d1 = tanh},
    .device = {.real = "tanh(a)"},
};

mr_var_t *mr_lax_logistic(mr_fn_t *f, mr_var_t *x) {
  return mr_emit1(f, &mr_op_logistic, 1, &x, 0, NULL);
}

static float logistic_f1(float x) { return 1.0f / (1.0f + expf(-x)); }
static double logistic_d1(double x) { return 1.0 / (1.0 + exp(-x)); }

static mr_err_t logistic_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  /* dx = g y (1 - y) */
  mr_var_t *y = e->out[0], *rest = mr_lax_sub(f, mr_literal(f, y->aval.dtype, 1), y);
  din[0] = mr_lax_mul(f, dout[0], mr_lax_mul(f, y, rest));
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_logistic = {
    UNARY,
    .name = "logistic",
    .shape = mr_shape_same,
    .sample = mr_sample_unary,
    .ad = {.jvp = mr_jvp_symmetric, .vjp = logistic_vjp},
    .cpu = {.f1 = logistic_f1, .d1 = logistic_d1},
    .device = {.real = "(T)1 / ((T)1 + exp(-a))"},
};

mr_var_t *mr_lax_erf(mr_fn_t *f, mr_var_t *x) { return mr_emit1(f, &mr_op_erf, 1, &x, 0, NULL); }

static mr_err_t erf_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  /* d erf(x) = 2/sqrt(pi) exp(-x^2) dx */
  mr_var_t *bell = mr_lax_exp(f, mr_lax_neg(f, mr_lax_integer_pow(f, e->in[0], 2)));
  din[0] = mr_lax_mul(f, dout[0], mr_lax_scale(f, 1.1283791670955126, bell));
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_erf = {
    UNARY,
    .name = "erf",
    .shape = mr_shape_same,
    .sample = mr_sample_unary,
    .ad = {.jvp = mr_jvp_symmetric, .vjp = erf_vjp},
    .cpu = {.f1 = mr_erf, .d1 = erf},
    .device = {.real = "erf_of(a)", .f64 = "erf(a)"},
};

mr_var_t *mr_lax_sin(mr_fn_t *f, mr_var_t *x) { return mr_emit1(f, &mr_op_sin, 1, &x, 0, NULL); }

static mr_err_t sin_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] = mr_lax_mul(f, dout[0], mr_lax_cos(f, e->in[0]));
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_sin = {
    UNARY,
    .name = "sin",
    .shape = mr_shape_same,
    .sample = mr_sample_unary,
    .ad = {.jvp = mr_jvp_symmetric, .vjp = sin_vjp},
    .cpu = {.f1 = sinf, .d1 = sin},
    .device = {.real = "sin(a)"},
};

mr_var_t *mr_lax_cos(mr_fn_t *f, mr_var_t *x) { return mr_emit1(f, &mr_op_cos, 1, &x, 0, NULL); }

static mr_err_t cos_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] = mr_lax_neg(f, mr_lax_mul(f, dout[0], mr_lax_sin(f, e->in[0])));
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_cos = {
    UNARY,
    .name = "cos",
    .shape = mr_shape_same,
    .sample = mr_sample_unary,
    .ad = {.jvp = mr_jvp_symmetric, .vjp = cos_vjp},
    .cpu = {.f1 = cosf, .d1 = cos},
    .device = {.real = "cos(a)"},
};

mr_var_t *mr_lax_atan(mr_fn_t *f, mr_var_t *x) { return mr_emit1(f, &mr_op_atan, 1, &x, 0, NULL); }

static mr_err_t atan_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  mr_var_t *square = mr_lax_integer_pow(f, e->in[0], 2);
  din[0] = mr_lax_div(f, dout[0], mr_lax_add(f, square, mr_literal(f, square->aval.dtype, 1)));
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_atan = {
    UNARY,
    .name = "atan",
    .shape = mr_shape_same,
    .sample = mr_sample_unary,
    .ad = {.jvp = mr_jvp_symmetric, .vjp = atan_vjp},
    .cpu = {.f1 = atanf, .d1 = atan},
    .device = {.real = "atan(a)"},
};

mr_var_t *mr_lax_abs(mr_fn_t *f, mr_var_t *x) { return mr_emit1(f, &mr_op_abs, 1, &x, 0, NULL); }

static mr_err_t abs_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  mr_dtype_t t = e->in[0]->aval.dtype;
  if (t == MR_U8 || t == MR_U32 || t == MR_U64)
    return mr_shape_fail(e, diag, "want numbers with a sign");
  return mr_shape_same(e, out, diag);
}

static int64_t abs_i1(int64_t x) { return x < 0 ? (int64_t)(0 - (uint64_t)x) : x; }

/* At 0 and -0 the slope is 1, as in jax. */
static mr_err_t abs_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  mr_var_t *up = mr_lax_ge(f, e->in[0], mr_literal(f, e->in[0]->aval.dtype, 0));
  din[0] = mr_lax_select_n(f, up, mr_lax_neg(f, dout[0]), dout[0]);
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_abs = {
    UNARY,
    .name = "abs",
    .shape = abs_shape,
    .sample = mr_sample_unary_positive,
    .ad = {.jvp = mr_jvp_symmetric, .vjp = abs_vjp},
    .cpu = {.f1 = fabsf, .d1 = fabs, .i1 = abs_i1},
    .device = {.real = "fabs(a)", .whole = "a < 0 ? (T)0 - a : a"},
};

mr_var_t *mr_lax_sign(mr_fn_t *f, mr_var_t *x) { return mr_emit1(f, &mr_op_sign, 1, &x, 0, NULL); }

/* -1, 0 or 1; NaN and a zero's sign stay. */
static float sign_f1(float x) { return x > 0 ? 1.0f : x < 0 ? -1.0f : x; }
static double sign_d1(double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x; }
static int64_t sign_i1(int64_t x) { return (x > 0) - (x < 0); }
static uint64_t sign_u1(uint64_t x) { return x > 0; }

const mr_op_def_t mr_op_sign = {
    UNARY,
    .name = "sign",
    .shape = mr_shape_same,
    .sample = mr_sample_unary_positive,
    .ad = {.jvp = mr_jvp_zero, .vjp = mr_vjp_zero},
    .cpu = {.f1 = sign_f1, .d1 = sign_d1, .i1 = sign_i1, .u1 = sign_u1},
    .device = {.real = "a > 0 ? (T)1 : a < 0 ? (T)-1 : a", .whole = "(T)(a > 0) - (T)(a < 0)"},
};

mr_var_t *mr_lax_floor(mr_fn_t *f, mr_var_t *x) {
  return mr_emit1(f, &mr_op_floor, 1, &x, 0, NULL);
}

const mr_op_def_t mr_op_floor = {
    UNARY,
    .name = "floor",
    .shape = mr_shape_same,
    .sample = mr_sample_unary_positive,
    .ad = {.jvp = mr_jvp_zero, .vjp = mr_vjp_zero},
    .cpu = {.f1 = floorf, .d1 = floor},
    .device = {.real = "floor(a)"},
};
