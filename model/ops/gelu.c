/* GELU: x Phi(x), with Phi by tanh or by erf, and its backward pass.  It is an op with kernels of
   its own, on runs of elements in fused loops; its open form writes the same formula in primitives,
   for all other transforms. */
#include <string.h>

#include "model/ops/lax.h"
#include "model/ops/operands.h"
#include "model/ops/rules.h"

static const char *kind_name(mr_gelu_t kind) { return kind == MR_GELU_ERF ? "erf" : "tanh"; }

mr_var_t *mr_lax_gelu(mr_fn_t *f, mr_var_t *x, mr_gelu_t kind) {
  return mr_emit1(f, &mr_op_gelu, 1, &x, 1, (mr_attr_t[]){mr_attr_text("kind", kind_name(kind))});
}

mr_gelu_t mr__gelu_kind(const mr_eqn_t *e) {
  return strcmp(mr_attr_get(e, "kind")->text, "erf") ? MR_GELU_TANH : MR_GELU_ERF;
}

static bool is_erf(const mr_eqn_t *e) { return mr__gelu_kind(e) == MR_GELU_ERF; }

/* The unit rule of gelu and gelu_vjp. */
static bool gelu_unit(const mr_eqn_t *e, mr_unit_t *u) {
  u->kind = MR_UNIT_EACH;
  return mr_is_narrow(e->in[0]->aval.dtype);
}

static mr_err_t gelu_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] =
      mr_emit1(f, &mr_op_gelu_vjp, 2, (mr_var_t *[]){e->in[0], dout[0]}, 1, mr_attr_get(e, "kind"));
  return mr_rule_done(f);
}

/* Phi by erf, or by the tanh formula of Hendrycks and Gimpel. */
static mr_err_t gelu_open(mr_fn_t *f, const mr_eqn_t *e, mr_var_t **out) {
  mr_var_t *x = e->in[0], *one = mr_literal(f, x->aval.dtype, 1), *inner;
  if (is_erf(e)) {
    inner = mr_lax_erf(f, mr_lax_scale(f, 0.70710678118654752, x));
  } else {
    inner = mr_lax_add(f, x, mr_lax_scale(f, 0.044715, mr_lax_integer_pow(f, x, 3)));
    inner = mr_lax_tanh(f, mr_lax_scale(f, 0.79788456080286536, inner));
  }
  out[0] = mr_lax_mul(f, x, mr_lax_scale(f, 0.5, mr_lax_add(f, one, inner)));
  return mr_rule_done(f);
}

static bool gelu_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 1) return false;
  return mr_sample_done(s, mr_lax_gelu(s->f, mr_sample_f32(s, -2, 2, 2, 3), (mr_gelu_t)k));
}

const mr_op_def_t mr_op_gelu = {
    .open = gelu_open,
    .batch = mr_batch_pointwise,
    .sample = gelu_sample,
    .name = "gelu",
    .n_in = 1,
    .n_out = 1,
    .shape = mr_shape_floats,
    .ad = {.jvp = mr_jvp_symmetric, .vjp = gelu_vjp},
    .fuse = {.unit = gelu_unit, .view = mr_view_each},
    .amp = {MR_AMP_FOLLOW},
    .cost = {.cheap = true, .each = 12},
    .shard = {mr_shard_each},
};

/* ---- gelu_vjp: x, dy -> dx ---- */

static mr_err_t gelu_vjp_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  if (!mr_aval_equal(&e->in[0]->aval, &e->in[1]->aval))
    return mr_shape_fail(e, diag, "dy must be as x");
  return mr_shape_same(e, out, diag);
}

/* The slope of x Phi(x) by erf: Phi(x) + x phi(x). */
static mr_var_t *slope_erf(mr_fn_t *f, mr_var_t *x) {
  mr_var_t *one = mr_literal(f, x->aval.dtype, 1);
  mr_var_t *cdf = mr_lax_erf(f, mr_lax_scale(f, 0.70710678118654752, x));
  cdf = mr_lax_scale(f, 0.5, mr_lax_add(f, one, cdf));
  mr_var_t *bell = mr_lax_exp(f, mr_lax_scale(f, -0.5, mr_lax_integer_pow(f, x, 2)));
  return mr_lax_add(f, cdf, mr_lax_mul(f, x, mr_lax_scale(f, 0.39894228040143268, bell)));
}

/* With t = tanh(u), u = c (x + a x^3): (1 + t)/2 + x/2 (1 - t^2) c (1 + 3 a x^2). */
static mr_var_t *slope_tanh(mr_fn_t *f, mr_var_t *x) {
  const double c = 0.79788456080286536, a = 0.044715;
  mr_var_t *one = mr_literal(f, x->aval.dtype, 1);
  mr_var_t *u = mr_lax_add(f, x, mr_lax_scale(f, a, mr_lax_integer_pow(f, x, 3)));
  mr_var_t *t = mr_lax_tanh(f, mr_lax_scale(f, c, u));
  mr_var_t *du = mr_lax_add(f, one, mr_lax_scale(f, 3 * a, mr_lax_integer_pow(f, x, 2)));
  mr_var_t *dt = mr_lax_sub(f, one, mr_lax_integer_pow(f, t, 2));
  mr_var_t *rest = mr_lax_mul(f, mr_lax_scale(f, 0.5 * c, x), mr_lax_mul(f, dt, du));
  return mr_lax_add(f, mr_lax_scale(f, 0.5, mr_lax_add(f, one, t)), rest);
}

static mr_err_t gelu_vjp_open(mr_fn_t *f, const mr_eqn_t *e, mr_var_t **out) {
  mr_var_t *slope = is_erf(e) ? slope_erf(f, e->in[0]) : slope_tanh(f, e->in[0]);
  out[0] = mr_lax_mul(f, slope, e->in[1]);
  return mr_rule_done(f);
}

static bool gelu_vjp_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 2) return false;
  int ndim = k < 2 ? 2 : 0;
  mr_var_t *in[] = {mr_sample_in(s, MR_F32, -2, 2, ndim, (int64_t[]){2, 3}),
                    mr_sample_in(s, MR_F32, -1, 1, ndim, (int64_t[]){2, 3})};
  mr_attr_t kind = mr_attr_text("kind", k ? "erf" : "tanh");
  return mr_sample_done(s, mr_emit1(s->f, op, 2, in, 1, &kind));
}

const mr_op_def_t mr_op_gelu_vjp = {
    .open = gelu_vjp_open,
    .batch = mr_batch_alike,
    .sample = gelu_vjp_sample,
    .name = "gelu_vjp",
    .n_in = 2,
    .n_out = 1,
    .shape = gelu_vjp_shape,
    .ad = {.jvp = mr_jvp_open, .vjp = mr_vjp_open},
    .fuse = {.unit = gelu_unit},
    .amp = {MR_AMP_FOLLOW},
    .cost = {.each = 20},
    .shard = {mr_shard_each},
};
