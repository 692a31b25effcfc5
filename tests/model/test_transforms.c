/* Derivatives, Jacobians, Hessians and vmap against values of jax (shared golden: transforms). */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdio.h>

#include "base/npy.h"
#include "tests/model/grid.h"
#include "tests/vectors.h"

/* An array of the golden values; dims as in the file. */
static mr_npy_t load(const char *name) {
  char path[VECTORS_PATH], file_name[128];
  mr_npy_t a = {0};
  mr_diag_t diag = {0};
  snprintf(file_name, sizeof file_name, "transforms/%s.npy", name);
  vectors_path(path, file_name);
  if (mr_npy_load(path, &a, &diag) < 0) fail_msg("%s", diag.text);
  return a;
}

static double value(const mr_npy_t *a, size_t i) {
  return a->dtype == MR_I32 ? ((const int32_t *)a->data)[i] : (double)((const float *)a->data)[i];
}

static mr_aval_t aval_of(const char *name) {
  mr_npy_t a = load(name);
  mr_aval_t v = mr_aval(a.dtype, a.ndim, a.dim);
  mr_npy_free(&a);
  return v;
}

static mr_var_t *input(mr_fn_t *f, const char *name) { return mr_fn_input(f, aval_of(name)); }

static double *numbers(const char *name) {
  mr_npy_t a = load(name);
  double *v = doubles((int64_t)a.count);
  for (size_t i = 0; i < a.count; i++) v[i] = value(&a, i);
  mr_npy_free(&a);
  return v;
}

/* Rounding differs from jax's within what the largest element carries; where the two differ here,
   values in double precision lie nearer to ours. */
static double largest(const mr_npy_t *w, size_t at, size_t n) {
  double top = 0;
  for (size_t i = 0; i < n; i++) top = fmax(top, fabs(value(w, at + i)));
  return top;
}

/* f (destroyed) run in f32 on the arrays named in `in` gives row `row` of the array named want. */
static void gives_row(mr_fn_t *f, const char *const *in, const char *want, size_t row) {
  double *x[GRID_MAX], *y[GRID_MAX];
  mr_npy_t w = load(want);
  for (int i = 0; i < f->n_in; i++) x[i] = numbers(in[i]);
  run_as_it_is(f, x, y);
  size_t n = (size_t)elems(f->out[0]);
  assert_true((row + 1) * n <= w.count);
  double tolerance = 2e-6 + 1e-5 * largest(&w, row * n, n);
  for (size_t i = 0; i < n; i++) {
    double a = y[0][i], b = value(&w, row * n + i);
    if (!(fabs(a - b) <= tolerance))
      fail_msg("%s[%zu] is %.9g, want %.9g\n%s", want, row * n + i, a, b, mr_fn_text(f));
  }
  free_all(f->n_in, x);
  free_all(f->n_out, y);
  mr_npy_free(&w);
  mr_fn_destroy(f);
}

#define GIVES(f, want, ...) gives_row(f, (const char *[]){__VA_ARGS__}, want, 0)

#define APPLY(what, f, call)                                      \
  static mr_fn_t *what {                                          \
    mr_fn_t *out = NULL;                                          \
    mr_diag_t diag = {0};                                         \
    if ((call) < 0) fail_msg("%s\n%s", diag.text, mr_fn_text(f)); \
    mr_fn_destroy(f);                                             \
    return out;                                                   \
  }

/* Each takes f away and gives the transformed function; derivatives are by input 0. */
static int first[] = {0};
APPLY(grad(mr_fn_t *f), f, mr_grad(f, 1, first, &out, &diag))
APPLY(jacfwd(mr_fn_t *f), f, mr_jacfwd(f, 1, first, &out, &diag))
APPLY(jacrev(mr_fn_t *f), f, mr_jacrev(f, 1, first, &out, &diag))
APPLY(hessian(mr_fn_t *f), f, mr_hessian(f, 1, first, &out, &diag))
APPLY(hvp(mr_fn_t *f), f, mr_hvp(f, 1, first, &out, &diag))
APPLY(jvp(mr_fn_t *f), f, mr_jvp(f, 1, first, &out, &diag))
APPLY(vmap_at(mr_fn_t *f, int64_t n, const int *in, const int *to), f,
      mr_vmap(f, n, in, to, &out, &diag))

static mr_fn_t *vmap(mr_fn_t *f, int64_t n) { return vmap_at(f, n, NULL, NULL); }

/* Inputs after the first are shared. */
static mr_fn_t *vmap_first(mr_fn_t *f, int64_t n) {
  int axes[GRID_MAX] = {0};
  for (int i = 1; i < f->n_in; i++) axes[i] = MR_UNMAPPED;
  return vmap_at(f, n, axes, NULL);
}

static mr_fn_t *only(mr_fn_t *f, int k) {
  mr_var_t *y = f->out[k];
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  mr_dce(f);
  return f;
}

static mr_fn_t *done(mr_fn_t *f, mr_var_t *y) {
  if (mr_fn_return(f, 1, &y) < 0) fail_msg("%s", f->diag.text);
  return f;
}

static mr_var_t *sum(mr_fn_t *f, mr_var_t *x) {
  int axes[MR_MAX_NDIM] = {0, 1, 2, 3, 4, 5, 6, 7};
  return x && x->aval.ndim ? mr_lax_reduce_sum(f, x, x->aval.ndim, axes) : x;
}

static mr_var_t *number(mr_fn_t *f, double v) { return mr_literal(f, MR_F32, v); }

static mr_fn_t *polynomial(void) { /* 3 x^2 + 2 x + 5 */
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_scalar(MR_F32));
  mr_var_t *y = mr_lax_scale(f, 3, mr_lax_integer_pow(f, x, 2));
  return done(f, mr_lax_add(f, mr_lax_add(f, y, mr_lax_scale(f, 2, x)), number(f, 5)));
}

static void a_polynomial_has_jax_s_derivatives(void **state) {
  GIVES(polynomial(), "poly.f", "poly.x");
  GIVES(grad(polynomial()), "poly.grad", "poly.x");
  GIVES(grad(grad(polynomial())), "poly.gradgrad", "poly.x");
}

static mr_var_t *element(mr_fn_t *f, mr_var_t *v, int64_t i) {
  mr_var_t *one = mr_lax_slice(f, v, &i, (int64_t[]){i + 1});
  return mr_lax_reshape(f, one, 0, NULL);
}

static mr_fn_t *two_products(void) { /* [x x, y z] */
  mr_fn_t *f = mr_fn_create();
  mr_var_t *v = input(f, "jac.v"), *x = element(f, v, 0);
  mr_var_t *both[] = {mr_lax_mul(f, x, x), mr_lax_mul(f, element(f, v, 1), element(f, v, 2))};
  for (int i = 0; i < 2; i++)
    both[i] = mr_lax_broadcast_in_dim(f, both[i], 1, (int64_t[]){1}, NULL);
  return done(f, mr_lax_concatenate(f, 2, both, 0));
}

static void jacobians_in_both_modes_are_jax_s(void **state) {
  GIVES(jacfwd(two_products()), "jac.fwd", "jac.v");
  GIVES(jacrev(two_products()), "jac.rev", "jac.v");
}

static mr_fn_t *squares(void) {
  mr_fn_t *f = mr_fn_create();
  return done(f, sum(f, mr_lax_integer_pow(f, input(f, "hess_sq.x"), 2)));
}

static mr_fn_t *tanh_layer(void) { /* (x, W) -> sum(tanh(W x)^2) */
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = input(f, "hess_tanh.x"), *w = input(f, "hess_tanh.W");
  return done(f, sum(f, mr_lax_integer_pow(f, mr_lax_tanh(f, mr_lax_dot(f, w, x)), 2)));
}

static void hessians_and_their_products_are_jax_s(void **state) {
  GIVES(hessian(squares()), "hess_sq.h", "hess_sq.x");
  GIVES(tanh_layer(), "hess_tanh.f", "hess_tanh.x", "hess_tanh.W");
  GIVES(grad(tanh_layer()), "hess_tanh.grad", "hess_tanh.x", "hess_tanh.W");
  GIVES(hessian(tanh_layer()), "hess_tanh.h", "hess_tanh.x", "hess_tanh.W");
  GIVES(jacrev(grad(tanh_layer())), "hess_tanh.h", "hess_tanh.x", "hess_tanh.W");
  GIVES(only(jvp(tanh_layer()), 1), "hess_tanh.jvp", "hess_tanh.x", "hess_tanh.W", "hess_tanh.t");
  GIVES(hvp(tanh_layer()), "hess_tanh.hvp", "hess_tanh.x", "hess_tanh.W", "hess_tanh.t");
}

static mr_fn_t *matvec(void) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = input(f, "hess_tanh.x"), *w = input(f, "hess_tanh.W");
  return done(f, mr_lax_dot(f, w, x));
}

/* x -> transposed, so that axis 1 of the array is the batch. */
static mr_fn_t *turned(mr_fn_t *f) {
  mr_fn_t *g = mr_fn_create();
  mr_var_t *in[2] = {mr_fn_input(g, aval_of("vmap.X")), mr_fn_input(g, f->in[1]->aval)}, *y;
  in[0] = mr_lax_transpose(g, in[0], (int[]){1, 0});
  assert_int_equal(mr_inline(g, f, in, &y), MR_OK);
  mr_fn_destroy(f);
  return done(g, y);
}

static void vmap_with_axes_is_jax_s(void **state) {
  int64_t n = aval_of("vmap.X").dim[0];
  const int none[] = {0, MR_UNMAPPED}, one[] = {1, MR_UNMAPPED}, last[] = {-1, MR_UNMAPPED};
  GIVES(vmap_at(matvec(), n, none, NULL), "vmap.matvec", "vmap.X", "hess_tanh.W");
  GIVES(vmap_at(matvec(), n, none, (int[]){1}), "vmap.matvec_out1", "vmap.X", "hess_tanh.W");
  GIVES(vmap_at(matvec(), n, none, (int[]){-1}), "vmap.matvec_out1", "vmap.X", "hess_tanh.W");
  GIVES(turned(vmap_at(matvec(), n, one, NULL)), "vmap.in1", "vmap.X", "hess_tanh.W");
  GIVES(turned(vmap_at(matvec(), n, last, NULL)), "vmap.in1", "vmap.X", "hess_tanh.W");
}

static void vmap_of_derivatives_is_jax_s(void **state) {
  int64_t n = aval_of("vmap.X").dim[0], m = aval_of("vmap.XX").dim[0];
  GIVES(vmap_first(grad(tanh_layer()), n), "vmap.grad", "vmap.X", "hess_tanh.W");
  GIVES(vmap_first(hessian(tanh_layer()), n), "vmap.hess", "vmap.X", "hess_tanh.W");
  GIVES(vmap_first(vmap_first(grad(tanh_layer()), n), m), "vmap.vmap_grad", "vmap.XX",
        "hess_tanh.W");
}

static mr_fn_t *wave(void) { /* sin(x) exp(-x x) */
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_scalar(MR_F32));
  mr_var_t *bell = mr_lax_exp(f, mr_lax_mul(f, mr_lax_neg(f, x), x));
  return done(f, mr_lax_mul(f, mr_lax_sin(f, x), bell));
}

/* x -> the derivative of f along 1, by forward mode. */
static mr_fn_t *slope(mr_fn_t *f) {
  mr_fn_t *j = only(jvp(f), 1), *g = mr_fn_create();
  mr_var_t *in[2] = {mr_fn_input(g, mr_aval_scalar(MR_F32)), number(g, 1)}, *y;
  assert_int_equal(mr_inline(g, j, in, &y), MR_OK);
  mr_fn_destroy(j);
  return done(g, y);
}

static void three_derivatives_and_jvp_of_jvp_under_vmap_are_jax_s(void **state) {
  int64_t n = aval_of("chain.x").dim[0];
  GIVES(vmap(wave(), n), "chain.d0", "chain.x");
  GIVES(vmap(grad(wave()), n), "chain.d1", "chain.x");
  GIVES(vmap(grad(grad(wave())), n), "chain.d2", "chain.x");
  GIVES(vmap(grad(grad(grad(wave()))), n), "chain.d3", "chain.x");
  GIVES(vmap(slope(slope(wave())), n), "chain.jvp_of_jvp", "chain.x");
}

static mr_fn_t *loop(bool summed) { /* ten times x = 0.5 x + 0.1 sin x */
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = input(f, "loop.x");
  for (int i = 0; i < 10; i++) {
    mr_var_t *half = mr_lax_scale(f, 0.5, x);
    x = mr_lax_add(f, half, mr_lax_scale(f, 0.1, mr_lax_sin(f, x)));
  }
  return done(f, summed ? sum(f, x) : x);
}

static void an_unrolled_loop_is_jax_s(void **state) {
  GIVES(loop(false), "loop.y", "loop.x");
  GIVES(grad(loop(true)), "loop.grad", "loop.x");
}

/* ---- primitives ---- */

static mr_var_t *relu(mr_fn_t *f, mr_var_t *x) { return mr_lax_max(f, x, number(f, 0)); }
static mr_var_t *square(mr_fn_t *f, mr_var_t *x) { return mr_lax_mul(f, x, x); }
static mr_var_t *cube(mr_fn_t *f, mr_var_t *x) { return mr_lax_integer_pow(f, x, 3); }
static mr_var_t *gelu_tanh(mr_fn_t *f, mr_var_t *x) { return mr_lax_gelu(f, x, MR_GELU_TANH); }
static mr_var_t *gelu_erf(mr_fn_t *f, mr_var_t *x) { return mr_lax_gelu(f, x, MR_GELU_ERF); }
static mr_var_t *log1pabs(mr_fn_t *f, mr_var_t *x) { return mr_lax_log1p(f, mr_lax_abs(f, x)); }
static mr_var_t *rsqrt1(mr_fn_t *f, mr_var_t *x) {
  return mr_lax_rsqrt(f, mr_lax_add(f, number(f, 1), mr_lax_mul(f, x, x)));
}

typedef struct primitive {
  const char *file;
  mr_var_t *(*at)(mr_fn_t *f, mr_var_t *x);
} primitive_t;

static const primitive_t primitives[] = {
    {"prim.tanh", mr_lax_tanh},  {"prim.logistic", mr_lax_logistic},
    {"prim.exp", mr_lax_exp},    {"prim.sin", mr_lax_sin},
    {"prim.cos", mr_lax_cos},    {"prim.erf", mr_lax_erf},
    {"prim.abs", mr_lax_abs},    {"prim.gelu_tanh", gelu_tanh},
    {"prim.gelu_erf", gelu_erf}, {"prim.relu", relu},
    {"prim.square", square},     {"prim.log1pabs", log1pabs},
    {"prim.rsqrt1", rsqrt1},     {"prim.pow3", cube},
};

static mr_fn_t *primitive_fn(const primitive_t *p) {
  mr_fn_t *f = mr_fn_create();
  return done(f, p->at(f, mr_fn_input(f, mr_aval_scalar(MR_F32))));
}

/* Derivatives by reverse over reverse, and by forward over forward. */
static void primitives_and_two_derivatives_in_both_modes_are_jax_s(void **state) {
  const char *x[] = {"prim.x"};
  int64_t n = aval_of("prim.x").dim[0];
  for (size_t i = 0; i < sizeof primitives / sizeof *primitives; i++) {
    const primitive_t *p = &primitives[i];
    gives_row(vmap(primitive_fn(p), n), x, p->file, 0);
    gives_row(vmap(grad(primitive_fn(p)), n), x, p->file, 1);
    gives_row(vmap(slope(primitive_fn(p)), n), x, p->file, 1);
    gives_row(vmap(grad(grad(primitive_fn(p))), n), x, p->file, 2);
    gives_row(vmap(slope(slope(primitive_fn(p))), n), x, p->file, 2);
  }
}

/* ---- cross-entropy, the fused op ---- */

static mr_fn_t *mean_loss(void) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *logits = input(f, "sm.logits"), *labels = input(f, "sm.labels");
  double n = (double)logits->aval.dim[0];
  mr_var_t *loss = mr_lax_softmax_cross_entropy(f, logits, labels, 0);
  return done(f, mr_lax_div(f, sum(f, loss), number(f, n)));
}

static void the_fused_loss_has_jax_s_gradient_and_hessian_product(void **state) {
  GIVES(mean_loss(), "sm.loss", "sm.logits", "sm.labels");
  GIVES(grad(mean_loss()), "sm.grad", "sm.logits", "sm.labels");
  mr_fn_t *h = hvp(mean_loss()), *f = mr_fn_create(); /* along rows 1, 2, 3, ... */
  mr_aval_t a = aval_of("sm.logits");
  mr_var_t *in[] = {mr_fn_input(f, a), mr_fn_input(f, aval_of("sm.labels")), NULL}, *y;
  in[2] = mr_lax_add(f, mr_lax_iota(f, MR_F32, 2, a.dim, 1), number(f, 1));
  assert_int_equal(mr_inline(f, h, in, &y), MR_OK);
  mr_fn_destroy(h);
  GIVES(done(f, y), "sm.hvp", "sm.logits", "sm.labels");
}

/* ---- named axes ---- */

/* x[2] -> a scalar in which the examples of axis "i" meet in every way. */
static mr_fn_t *meeting(void) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 2)), *y = mr_lax_sin(f, x);
  y = mr_lax_mul(f, y, mr_lax_psum(f, mr_lax_exp(f, x), "i"));
  y = mr_lax_add(f, y, mr_lax_pmean(f, y, "i"));
  mr_var_t *all = mr_lax_all_gather(f, mr_lax_mul(f, x, x), "i", 3);
  mr_var_t *place = mr_lax_iota(f, MR_F32, 2, (int64_t[]){3, 2}, 0);
  all = mr_lax_reduce_sum(f, mr_lax_mul(f, all, place), 1, (int[]){0});
  mr_var_t *own = mr_lax_convert(f, mr_lax_axis_index(f, "i"), MR_F32);
  return done(f, sum(f, mr_lax_add(f, y, mr_lax_mul(f, own, all))));
}

static mr_fn_t *over_i(mr_fn_t *f) {
  mr_fn_t *m = NULL;
  mr_diag_t diag = {0};
  if (mr_vmap_axis(f, "i", 3, NULL, NULL, &m, &diag) < 0) fail_msg("%s", diag.text);
  mr_fn_destroy(f);
  return m;
}

static mr_fn_t *summed(mr_fn_t *f) {
  mr_fn_t *g = mr_fn_create();
  mr_var_t *x = mr_fn_input(g, f->in[0]->aval), *y;
  assert_int_equal(mr_inline(g, f, &x, &y), MR_OK);
  mr_fn_destroy(f);
  return done(g, sum(g, y));
}

static void psum_pmean_all_gather_and_axis_index_are_sums_over_the_examples(void **state) {
  double x[6] = {0.1, -0.4, 0.7, 0.2, -0.3, 0.5}, *in[] = {x}, *y[1], want[3] = {0}, *w[] = {want};
  mr_fn_t *f = over_i(meeting());
  for (int k = 0; k < 2; k++) {
    double total = 0, mean = 0, all = 0, own[3];
    for (int i = 0; i < 3; i++) total += exp(x[2 * i + k]);
    for (int i = 0; i < 3; i++) mean += (own[i] = sin(x[2 * i + k]) * total) / 3;
    for (int i = 0; i < 3; i++) all += i * x[2 * i + k] * x[2 * i + k];
    for (int i = 0; i < 3; i++) want[i] += own[i] + mean + i * all;
  }
  run_f64(f, in, y);
  assert_near("collectives", f, y, w, 1e-12);
  free(y[0]);
  mr_fn_destroy(f);
}

/* A cotangent of one at each example: the gradient of their sum. */
static void grad_under_a_named_axis_is_the_gradient_of_the_sum(void **state) {
  double x[6] = {0.1, -0.4, 0.7, 0.2, -0.3, 0.5}, *in[] = {x};
  mr_fn_t *inside = over_i(grad(meeting())), *outside = grad(summed(over_i(meeting())));
  assert_same_fn("vmap(grad) with collectives", inside, outside, in, 1e-12);
  mr_fn_destroy(inside);
  mr_fn_destroy(outside);
}

static void two_axes_are_distinguished_by_their_names(void **state) {
  mr_fn_t *f = mr_fn_create(), *m = NULL;
  mr_diag_t diag = {0};
  mr_var_t *x = mr_fn_input(f, mr_aval_scalar(MR_F32));
  f = done(f, mr_lax_div(f, x, mr_lax_psum(f, x, "i"))); /* x (j,i) over its rows' sums */
  f = over_i(f);
  assert_int_equal(mr_vmap_axis(f, "j", 2, NULL, NULL, &m, &diag), MR_OK);
  double v[6] = {1, 2, 5, 2, 2, 4}, *in[] = {v}, *y[1];
  double want[6] = {0.125, 0.25, 0.625, 0.25, 0.25, 0.5}, *w[] = {want};
  run_f64(m, in, y);
  assert_near("psum over i", m, y, w, 1e-12);
  free(y[0]);
  mr_fn_destroy(m);
  mr_fn_destroy(f);
}

/* x psum(x) + axis_index, as the body of each call that has a batch rule of its own. */
static mr_fn_t *called_over_i(int kind) {
  mr_fn_t *b = mr_fn_create(), *rule = mr_fn_create(), *bwd = mr_fn_create();
  mr_aval_t a = mr_aval_scalar(MR_F32);
  mr_var_t *x = mr_fn_input(b, a), *y = NULL, *all[2];
  y = mr_lax_mul(b, x, mr_lax_psum(b, x, "i"));
  b = done(b, mr_lax_add(b, y, mr_lax_convert(b, mr_lax_axis_index(b, "i"), MR_F32)));
  all[0] = mr_fn_input(rule, a);
  all[1] = mr_fn_input(rule, a);
  mr_fn_return(rule, 2, all);
  all[0] = mr_fn_input(bwd, a);
  mr_fn_return(bwd, 1, all);
  mr_fn_t *f = mr_fn_create();
  x = mr_fn_input(f, a);
  mr_err_t e = kind == 0   ? mr_lax_checkpoint(f, b, 0, &x, &y)
               : kind == 1 ? mr_lax_custom_jvp(f, b, rule, &x, &y)
                           : mr_lax_custom_vjp(f, b, b, bwd, &x, &y);
  if (e < 0) fail_msg("%s", f->diag.text);
  mr_fn_destroy(b), mr_fn_destroy(rule), mr_fn_destroy(bwd);
  return done(f, y);
}

static void a_call_whose_operands_are_not_mapped_sees_the_axis(void **state) {
  double x = 2, *in[] = {&x}, want[3] = {12, 13, 14}, *w[] = {want}, *y[1];
  for (int kind = 0; kind < 3; kind++) {
    mr_fn_t *f = called_over_i(kind), *m = NULL;
    mr_diag_t diag = {0};
    if (mr_vmap_axis(f, "i", 3, (int[]){MR_UNMAPPED}, NULL, &m, &diag) < 0)
      fail_msg("call %d: %s", kind, diag.text);
    run_as_it_is(m, in, y);
    assert_near("an operand that is shared", m, y, w, 1e-6);
    free(y[0]);
    mr_fn_destroy(m);
    mr_fn_destroy(f);
  }
}

/* x w, mapped over i, and its gradient by x, where x is a custom_vjp of rule ct -> psum(ct): every
   example's is the sum of all w, and so is that of an x that they share. */
static void a_rule_of_ones_own_sums_over_the_axis(void **state) {
  double x[] = {5, 6, 7}, w[] = {1, 2, 4}, *in[] = {x, w}, want[] = {7, 7, 7}, *all[] = {want};
  mr_aval_t a = mr_aval_scalar(MR_F32);
  for (int shared = 0; shared < 2; shared++) {
    mr_fn_t *b = mr_fn_create(), *bwd = mr_fn_create(), *f = mr_fn_create(), *m = NULL;
    mr_diag_t diag = {0};
    b = done(b, mr_lax_scale(b, 1, mr_fn_input(b, a)));
    bwd = done(bwd, mr_lax_psum(bwd, mr_fn_input(bwd, a), "i"));
    mr_var_t *v[] = {mr_fn_input(f, a), mr_fn_input(f, a)}, *y = NULL;
    if (mr_lax_custom_vjp(f, b, b, bwd, v, &y) < 0) fail_msg("%s", f->diag.text);
    f = done(f, mr_lax_mul(f, y, v[1]));
    if (mr_vmap_axis(f, "i", 3, (int[]){shared ? MR_UNMAPPED : 0, 0}, NULL, &m, &diag) < 0)
      fail_msg("%s", diag.text);
    mr_fn_t *g = mr_fn_create(), *d = NULL;
    mr_var_t *of[] = {mr_fn_input(g, m->in[0]->aval), mr_fn_input(g, m->in[1]->aval)}, *z;
    assert_int_equal(mr_inline(g, m, of, &z), MR_OK);
    g = done(g, sum(g, z));
    if (mr_grad(g, 1, (int[]){0}, &d, &diag) < 0) fail_msg("%s", diag.text);
    double *got[1];
    run_as_it_is(d, in, got);
    assert_near(shared ? "a shared operand" : "a mapped operand", d, got, all, 1e-6);
    free(got[0]);
    mr_fn_destroy(b), mr_fn_destroy(bwd), mr_fn_destroy(f);
    mr_fn_destroy(m), mr_fn_destroy(g), mr_fn_destroy(d);
  }
}

/* sin(f(x) x) of x = 0 ... 7 (4,2), where f sends 0 -> 1 -> 2 and 3 -> 0, and its gradient; jax
   0.10.2 gave them over four devices. */
static void ppermute_sends_as_jax_does_and_its_derivative_comes_back(void **state) {
  const int perm[][2] = {{0, 1}, {1, 2}, {3, 0}};
  double x[8] = {0, 1, 2, 3, 4, 5, 6, 7}, *in[] = {x}, sent[8] = {6, 7, 0, 1, 2, 3, 0, 0};
  double slope[8] = {8.0,
                     2.307338237762451,
                     -0.5820001363754272,
                     -4.7884321212768555,
                     -0.2910000681877136,
                     -2.2790637016296387,
                     0.0,
                     0.7539022564888};
  double *w[] = {sent}, *s[] = {slope}, *y[1];
  for (int turn = 0; turn < 2; turn++) {
    mr_fn_t *f = mr_fn_create(), *m = NULL;
    mr_diag_t diag = {0};
    mr_var_t *v = mr_fn_input(f, mr_aval_of(MR_F32, 2));
    mr_var_t *got = mr_lax_ppermute(f, v, "i", 3, perm);
    if (turn) got = mr_lax_sin(f, mr_lax_mul(f, got, v));
    f = done(f, turn ? sum(f, got) : got);
    if (turn) f = grad(f);
    if (mr_vmap_axis(f, "i", 4, NULL, NULL, &m, &diag) < 0) fail_msg("%s", diag.text);
    run_f64(m, in, y);
    assert_near("ppermute", m, y, turn ? s : w, turn ? 1e-6 : 0);
    free(y[0]);
    mr_fn_destroy(m), mr_fn_destroy(f);
  }
}

static mr_fn_t *one_extreme(mr_dtype_t t, bool least) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(t, 2));
  return done(f, least ? mr_lax_pmin(f, x, "i") : mr_lax_pmax(f, x, "i"));
}

static void pmax_and_pmin_are_the_extremes_over_the_examples(void **state) {
  double x[6] = {-3, 5, 2, -7, 0, 4}, *in[] = {x}, *y[1];
  double want[2][6] = {{2, 5, 2, 5, 2, 5}, {-3, -7, -3, -7, -3, -7}}, *w[] = {NULL};
  for (int least = 0; least < 2; least++)
    for (int whole = 0; whole < 2; whole++) {
      mr_fn_t *f = one_extreme(whole ? MR_I32 : MR_F32, least), *m = NULL;
      mr_diag_t diag = {0};
      if (mr_vmap_axis(f, "i", 3, NULL, NULL, &m, &diag) < 0) fail_msg("%s", diag.text);
      w[0] = want[least];
      run_as_it_is(m, in, y);
      assert_near("extremes", m, y, w, 0);
      free(y[0]);
      mr_fn_destroy(m), mr_fn_destroy(f);
    }
}

/* jax: "Differentiation rule for 'pmax' not implemented". */
static void pmax_and_pmin_have_no_derivative_as_in_jax(void **state) {
  for (int least = 0; least < 2; least++) {
    mr_fn_t *f = mr_fn_create(), *out = NULL;
    mr_diag_t diag = {0};
    mr_var_t *x = mr_fn_input(f, mr_aval_scalar(MR_F32));
    f = done(f, least ? mr_lax_pmin(f, x, "i") : mr_lax_pmax(f, x, "i"));
    assert_int_equal(mr_grad(f, 1, (int[]){0}, &out, &diag), MR_ERR_NORULE);
    assert_non_null(strstr(diag.text, least ? "pmin" : "pmax"));
    diag = (mr_diag_t){0};
    assert_int_equal(mr_jvp(f, 1, (int[]){0}, &out, &diag), MR_ERR_NORULE);
    mr_fn_destroy(f);
  }
}

static void a_permutation_that_is_none_is_refused(void **state) {
  const int bad[][2][2] = {{{0, 1}, {0, 2}}, {{0, 1}, {2, 1}}, {{0, 1}, {-1, 2}}};
  const char *pair[] = {"pair 1 is (0, 2)", "pair 1 is (2, 1)", "pair 1 is (-1, 2)"};
  for (int k = 0; k < 3; k++) {
    mr_fn_t *f = mr_fn_create();
    mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 2));
    assert_null(mr_lax_ppermute(f, x, "i", 2, bad[k]));
    assert_int_equal(f->diag.code, MR_ERR_SHAPE);
    if (!strstr(f->diag.text, pair[k])) fail_msg("%s", f->diag.text);
    mr_fn_destroy(f);
  }
  mr_fn_t *f = mr_fn_create(), *m = NULL;
  mr_diag_t diag = {0};
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 2));
  f = done(f, mr_lax_ppermute(f, x, "i", 1, (const int[][2]){{0, 5}}));
  assert_int_equal(mr_vmap_axis(f, "i", 3, NULL, NULL, &m, &diag), MR_ERR_SHAPE);
  assert_non_null(strstr(diag.text, "axis \"i\" has size 3, so no pair (0, 5)"));
  mr_fn_destroy(f);
}

/* What is printed is read again; a text of another shape is not taken for a permutation. */
static void a_permutation_is_printed_and_parsed(void **state) {
  mr_fn_t *f = mr_fn_create(), *again = NULL;
  mr_diag_t diag = {0};
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 2));
  f = done(f, mr_lax_ppermute(f, x, "i", 2, (const int[][2]){{0, 1}, {1, 0}}));
  char *text = mr_fn_text(f), *twice;
  assert_non_null(strstr(text, "ppermute[axis_name=i perm=((0, 1), (1, 0))] a"));
  if (mr_fn_parse(text, &again, &diag) < 0) fail_msg("%s", diag.text);
  twice = mr_fn_text(again);
  assert_string_equal(twice, text);
  free(text), free(twice);
  mr_fn_destroy(again), again = NULL;
  assert_int_equal(
      mr_fn_parse("{ lambda ; a:f32[2]. let b:f32[2] = ppermute[axis_name=i perm=((0, 1), "
                  "(0, 2))] a in (b,) }",
                  &again, &diag),
      MR_ERR_DATA);
  mr_fn_destroy(f);
}

static void an_axis_that_no_vmap_maps_is_named(void **state) {
  mr_fn_t *f = meeting();
  mr_exec_t *x = NULL;
  mr_diag_t diag = {0};
  assert_int_equal(mr_compile(f, NULL, &x, &diag), MR_ERR_NORULE);
  assert_string_equal(diag.text, "psum: no vmap binds the axis \"i\"");
  mr_fn_destroy(f);
}

/* ---- what is refused ---- */

static void axes_that_are_not_there_are_refused(void **state) {
  mr_fn_t *f = matvec(), *out = NULL;
  mr_diag_t d[3] = {{0}};
  assert_int_equal(mr_vmap(f, 3, (int[]){2, 0}, NULL, &out, &d[0]), MR_ERR_SHAPE);
  assert_non_null(strstr(d[0].text, "in_axes[0] is 2"));
  assert_int_equal(mr_vmap(f, 3, NULL, (int[]){5}, &out, &d[1]), MR_ERR_SHAPE);
  assert_non_null(strstr(d[1].text, "out_axes[0] is 5"));
  assert_int_equal(mr_vmap(f, 3, NULL, (int[]){MR_UNMAPPED}, &out, &d[2]), MR_ERR_SHAPE);
  assert_non_null(strstr(d[2].text, "output 0 is mapped"));
  mr_fn_destroy(f);
}

static void a_norm_of_no_tensors_is_zero(void **state) {
  mr_fn_t *f = mr_fn_create(), *open = NULL;
  mr_diag_t diag = {0};
  mr_var_t *y = mr_lax_sum_squares(f, 0, NULL);
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  if (mr_open(f, &open, &diag) < 0) fail_msg("%s", diag.text);
  for (int k = 0; k < 2; k++) {
    double *x[GRID_MAX] = {NULL}, *out[GRID_MAX];
    run_as_it_is(k ? open : f, x, out);
    assert_true(out[0][0] == 0);
    free_all(1, out);
  }
  mr_fn_destroy(f), mr_fn_destroy(open);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_polynomial_has_jax_s_derivatives),
      cmocka_unit_test(jacobians_in_both_modes_are_jax_s),
      cmocka_unit_test(hessians_and_their_products_are_jax_s),
      cmocka_unit_test(vmap_with_axes_is_jax_s),
      cmocka_unit_test(vmap_of_derivatives_is_jax_s),
      cmocka_unit_test(three_derivatives_and_jvp_of_jvp_under_vmap_are_jax_s),
      cmocka_unit_test(an_unrolled_loop_is_jax_s),
      cmocka_unit_test(primitives_and_two_derivatives_in_both_modes_are_jax_s),
      cmocka_unit_test(the_fused_loss_has_jax_s_gradient_and_hessian_product),
      cmocka_unit_test(psum_pmean_all_gather_and_axis_index_are_sums_over_the_examples),
      cmocka_unit_test(grad_under_a_named_axis_is_the_gradient_of_the_sum),
      cmocka_unit_test(two_axes_are_distinguished_by_their_names),
      cmocka_unit_test(a_call_whose_operands_are_not_mapped_sees_the_axis),
      cmocka_unit_test(a_rule_of_ones_own_sums_over_the_axis),
      cmocka_unit_test(ppermute_sends_as_jax_does_and_its_derivative_comes_back),
      cmocka_unit_test(pmax_and_pmin_are_the_extremes_over_the_examples),
      cmocka_unit_test(pmax_and_pmin_have_no_derivative_as_in_jax),
      cmocka_unit_test(a_permutation_that_is_none_is_refused),
      cmocka_unit_test(a_permutation_is_printed_and_parsed),
      cmocka_unit_test(an_axis_that_no_vmap_maps_is_named),
      cmocka_unit_test(axes_that_are_not_there_are_refused),
      cmocka_unit_test(a_norm_of_no_tensors_is_zero),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
