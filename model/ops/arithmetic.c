/* Sums, differences, products and quotients of two values, element by element.  Integers wrap: they
   are computed unsigned, where C defines overflow. */
#include "model/ops/lax.h"
#include "model/ops/operands.h"
#include "model/ops/rules.h"

#define BINARY                                                                                  \
  MR_RULES_POINTWISE, .n_in = 2, .n_out = 1, .shape = mr_shape_pointwise, .reuse = {.of = {3}}, \
                      .amp.how = MR_AMP_FOLLOW

mr_var_t *mr_lax_add(mr_fn_t *f, mr_var_t *a, mr_var_t *b) {
  return mr_emit1(f, &mr_op_add, 2, (mr_var_t *[]){a, b}, 0, NULL);
}

static mr_err_t add_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  for (int i = 0; i < 2; i++) din[i] = mr_unbroadcast(f, dout[0], e->in[i]);
  return mr_rule_done(f);
}

static mr_err_t add_jvp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout) {
  dout[0] = mr_tangent_add(f, mr_tangent_spread(f, e, din[0]), mr_tangent_spread(f, e, din[1]));
  return mr_rule_done(f);
}

float mr__add_f2(float a, float b) { return a + b; }
double mr__add_d2(double a, double b) { return a + b; }
int64_t mr__add_i2(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }

const mr_op_def_t mr_op_add = {
    BINARY,
    .name = "add",
    .sample = mr_sample_binary,
    .ad = {.jvp = add_jvp, .vjp = add_vjp},
    .amp.mixes = true,
    .cpu = {.f2 = mr__add_f2, .d2 = mr__add_d2, .i2 = mr__add_i2},
    .device = {.real = "a + b", .whole = "a + b"},
    .shard.linear = true,
};

mr_var_t *mr_lax_add_any(mr_fn_t *f, mr_var_t *a, mr_var_t *b) {
  return mr_emit1(f, &mr_op_add_any, 2, (mr_var_t *[]){a, b}, 0, NULL);
}

const mr_op_def_t mr_op_add_any = {
    BINARY,
    .name = "add_any",
    .sample = mr_sample_binary,
    .ad = {.jvp = add_jvp, .vjp = add_vjp},
    .amp.mixes = true,
    .cpu = {.f2 = mr__add_f2, .d2 = mr__add_d2, .i2 = mr__add_i2},
    .device = {.real = "a + b", .whole = "a + b"},
    .shard.linear = true,
};

mr_var_t *mr_lax_neg(mr_fn_t *f, mr_var_t *x) { return mr_emit1(f, &mr_op_neg, 1, &x, 0, NULL); }

static float neg_f1(float x) { return -x; }
static double neg_d1(double x) { return -x; }
static int64_t neg_i1(int64_t x) { return (int64_t)(0 - (uint64_t)x); }

static mr_err_t neg_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] = mr_lax_neg(f, dout[0]);
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_neg = {
    MR_RULES_POINTWISE,
    .name = "neg",
    .n_in = 1,
    .n_out = 1,
    .shape = mr_shape_same,
    .sample = mr_sample_unary,
    .ad = {.jvp = mr_jvp_symmetric, .vjp = neg_vjp},
    .reuse = {.of = {1}},
    .amp = {MR_AMP_FOLLOW},
    .cpu = {.f1 = neg_f1, .d1 = neg_d1, .i1 = neg_i1},
    .device = {.real = "-a", .whole = "(T)0 - a"},
    .shard.linear = true,
};

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
    BINARY,
    .name = "sub",
    .sample = mr_sample_binary,
    .ad = {.jvp = sub_jvp, .vjp = sub_vjp},
    .cpu = {.f2 = sub_f2, .d2 = sub_d2, .i2 = sub_i2},
    .device = {.real = "a - b", .whole = "a - b"},
    .shard.linear = true,
};

mr_var_t *mr_lax_mul(mr_fn_t *f, mr_var_t *a, mr_var_t *b) {
  return mr_emit1(f, &mr_op_mul, 2, (mr_var_t *[]){a, b}, 0, NULL);
}

static float mul_f2(float a, float b) { return a * b; }
static double mul_d2(double a, double b) { return a * b; }
static int64_t mul_i2(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }

/* da = dout b, db = dout a; a literal has no cotangent. */
static mr_err_t mul_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  mr_var_t *a = e->in[0], *b = e->in[1];
  if (!a->literal) din[0] = mr_unbroadcast(f, mr_lax_mul(f, dout[0], b), a);
  if (!b->literal) din[1] = mr_unbroadcast(f, mr_lax_mul(f, dout[0], a), b);
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_mul = {
    BINARY,
    .name = "mul",
    .sample = mr_sample_binary,
    .ad = {.jvp = mr_jvp_product, .vjp = mul_vjp},
    .cpu = {.f2 = mul_f2, .d2 = mul_d2, .i2 = mul_i2},
    .device = {.real = "a * b", .whole = "a * b"},
};

mr_var_t *mr_lax_scale(mr_fn_t *f, double s, mr_var_t *x) {
  return x ? mr_lax_mul(f, mr_literal(f, x->aval.dtype, s), x) : NULL;
}

mr_var_t *mr_lax_div(mr_fn_t *f, mr_var_t *a, mr_var_t *b) {
  return mr_emit1(f, &mr_op_div, 2, (mr_var_t *[]){a, b}, 0, NULL);
}

static float div_f2(float a, float b) { return a / b; }
static double div_d2(double a, double b) { return a / b; }
/* Division by zero gives -1, as in jax; -1 is handled apart because INT64_MIN / -1 traps. */
static int64_t div_i2(int64_t a, int64_t b) {
  return b == 0 ? -1 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}
static uint64_t div_u2(uint64_t a, uint64_t b) { return b ? a / b : UINT64_MAX; }

/* y = a/b: da = dout / b, db = -da y */
static mr_err_t div_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  mr_var_t *a = e->in[0], *b = e->in[1], *da = mr_lax_div(f, dout[0], b);
  din[0] = mr_unbroadcast(f, da, a);
  if (!b->literal) din[1] = mr_unbroadcast(f, mr_lax_neg(f, mr_lax_mul(f, da, e->out[0])), b);
  return mr_rule_done(f);
}

/* d(a/b) = (da - y db) / b */
static mr_err_t div_jvp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout) {
  mr_var_t *a = mr_tangent_spread(f, e, din[0]), *b = mr_tangent_spread(f, e, din[1]);
  if (b) b = mr_lax_mul(f, e->out[0], b);
  mr_var_t *top = !b ? a : a ? mr_lax_sub(f, a, b) : mr_lax_neg(f, b);
  dout[0] = mr_lax_div(f, top, e->in[1]);
  return mr_rule_done(f);
}

const mr_op_def_t mr_op_div = {
    BINARY,
    .name = "div",
    .sample = mr_sample_binary_positive,
    .ad = {.jvp = div_jvp, .vjp = div_vjp},
    .cpu = {.f2 = div_f2, .d2 = div_d2, .i2 = div_i2, .u2 = div_u2},
    .device = {.real = "a / b",
               .whole = "b == 0 ? (T)-1 : (T)-1 < 0 && b == (T)-1 ? (T)0 - a : a / b"},
};
