/* Reverse mode and the compiled executable against values of jax. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/npy.h"
#include "model/model.h"
#include "tests/vectors.h"

static mr_npy_t load(const char *file) {
  char path[VECTORS_PATH], file_name[128];
  mr_npy_t a = {0};
  mr_diag_t diag = {0};
  snprintf(file_name, sizeof file_name, "transforms/%s.npy", file);
  vectors_path(path, file_name);
  if (mr_npy_load(path, &a, &diag) < 0) fail_msg("%s", diag.text);
  return a;
}

static void near_golden(const char *file, const float *got, size_t at, size_t n, double tol) {
  mr_npy_t want = load(file);
  assert_true(at + n <= want.count);
  for (size_t i = 0; i < n; i++) {
    double w = ((float *)want.data)[at + i];
    if (!(fabs(got[i] - w) <= tol * (1 + fabs(w))))
      fail_msg("%s[%zu]: %.9g, want %.9g", file, at + i, (double)got[i], w);
  }
  mr_npy_free(&want);
}

static void run(const mr_fn_t *f, const void *const *in, void *const *out) {
  mr_exec_t *x = NULL;
  mr_diag_t diag = {0};
  if (mr_compile(f, NULL, &x, &diag) < 0) fail_msg("%s", diag.text);
  mr_exec_run(x, in, out);
  mr_exec_destroy(x);
}

static mr_fn_t *grad_of(const mr_fn_t *f) {
  mr_fn_t *g = NULL;
  mr_diag_t diag = {0};
  if (mr_value_and_grad(f, 1, (int[]){0}, &g, &diag) < 0) fail_msg("%s", diag.text);
  return g;
}

/* sum of output `which` of g, so that it can be derived once more. */
static mr_fn_t *sum_of(const mr_fn_t *g, int which) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *out[4], *x = mr_fn_input(f, g->in[0]->aval);
  assert_int_equal(mr_inline(f, g, &x, out), MR_OK);
  mr_var_t *s = out[which];
  if (s->aval.ndim) s = mr_lax_reduce_sum(f, s, 1, (int[]){0});
  assert_int_equal(mr_fn_return(f, 1, &s), MR_OK);
  return f;
}

typedef mr_var_t *scalar_op(mr_fn_t *f, mr_var_t *x);

static mr_var_t *square(mr_fn_t *f, mr_var_t *x) { return mr_lax_integer_pow(f, x, 2); }
static mr_var_t *cube(mr_fn_t *f, mr_var_t *x) { return mr_lax_integer_pow(f, x, 3); }

static mr_var_t *rsqrt1(mr_fn_t *f, mr_var_t *x) {
  return mr_lax_rsqrt(f, mr_lax_add(f, mr_literal(f, MR_F32, 1), mr_lax_mul(f, x, x)));
}

static mr_var_t *gelu_tanh(mr_fn_t *f, mr_var_t *x) { return mr_lax_gelu(f, x, MR_GELU_TANH); }
static mr_var_t *gelu_erf(mr_fn_t *f, mr_var_t *x) { return mr_lax_gelu(f, x, MR_GELU_ERF); }

static void check_primitive(const char *name, scalar_op *op, bool twice) {
  char file[64];
  _Alignas(64) float y[4], sum, d[4], dsum, dd[4];
  snprintf(file, sizeof file, "prim.%s", name);
  mr_npy_t x = load("prim.x");
  const void *in[] = {x.data};
  mr_fn_t *f = mr_fn_create();
  mr_var_t *v = op(f, mr_fn_input(f, mr_aval_of(MR_F32, 4)));
  assert_int_equal(mr_fn_return(f, 1, &v), MR_OK);
  run(f, in, (void *[]){y});
  near_golden(file, y, 0, 4, 2e-6);
  mr_fn_t *s = sum_of(f, 0), *g = grad_of(s);
  run(g, in, (void *[]){&sum, d});
  near_golden(file, d, 4, 4, 2e-6);
  if (twice) {
    mr_fn_t *gs = sum_of(g, 1), *gg = grad_of(gs);
    run(gg, in, (void *[]){&dsum, dd});
    near_golden(file, dd, 8, 4, 5e-6);
    mr_fn_destroy(gs);
    mr_fn_destroy(gg);
  }
  mr_fn_destroy(f);
  mr_fn_destroy(s);
  mr_fn_destroy(g);
  mr_npy_free(&x);
}

static void primitives_and_two_derivatives_are_jax_s(void **state) {
  check_primitive("tanh", mr_lax_tanh, true);
  check_primitive("exp", mr_lax_exp, true);
  check_primitive("erf", mr_lax_erf, true);
  check_primitive("square", square, true);
  check_primitive("pow3", cube, true);
  check_primitive("rsqrt1", rsqrt1, true);
  check_primitive("gelu_tanh", gelu_tanh, false);
  check_primitive("gelu_erf", gelu_erf, false);
}

static void the_vjp_of_a_product_is_jax_s(void **state) {
  mr_npy_t x = load("dot.x"), y = load("dot.y"), ct = load("dot.ct");
  _Alignas(64) float out[3], dx[12], dy[4];
  mr_diag_t diag = {0};
  mr_fn_t *f = mr_fn_create(), *back = NULL;
  mr_var_t *a = mr_fn_input(f, mr_aval_of(MR_F32, 3, 4));
  mr_var_t *b = mr_fn_input(f, mr_aval_of(MR_F32, 4, 1)), *one = mr_literal(f, MR_F32, 1);
  mr_var_t *p = mr_lax_dot(f, mr_lax_add(f, a, one), mr_lax_add(f, b, one));
  assert_int_equal(mr_fn_return(f, 1, &p), MR_OK);
  run(f, (const void *[]){x.data, y.data}, (void *[]){out});
  near_golden("dot.out", out, 0, 3, 1e-6);
  assert_int_equal(mr_vjp(f, 2, (int[]){0, 1}, &back, &diag), MR_OK);
  run(back, (const void *[]){x.data, y.data, ct.data}, (void *[]){dx, dy});
  near_golden("dot.vjp_x", dx, 0, 12, 1e-6);
  near_golden("dot.vjp_y", dy, 0, 4, 1e-6);
  mr_fn_destroy(f);
  mr_fn_destroy(back);
  mr_npy_free(&x);
  mr_npy_free(&y);
  mr_npy_free(&ct);
}

static void softmax_and_cross_entropy_are_jax_s(void **state) {
  mr_npy_t x = load("sm.logits"), labels = load("sm.labels");
  _Alignas(64) float soft[24], loss, d[24];
  mr_fn_t *f = mr_fn_create();
  mr_var_t *a = mr_fn_input(f, mr_aval_of(MR_F32, 4, 6));
  mr_var_t *l = mr_fn_input(f, mr_aval_of(MR_I32, 4)), *p = mr_lax_softmax(f, a);
  mr_var_t *mean = mr_lax_softmax_cross_entropy(f, a, l, 0);
  mean = mr_lax_scale(f, 0.25, mr_lax_reduce_sum(f, mean, 1, (int[]){0}));
  assert_int_equal(mr_fn_return(f, 2, (mr_var_t *[]){mean, p}), MR_OK);
  mr_fn_t *g = grad_of(f);
  run(g, (const void *[]){x.data, labels.data}, (void *[]){&loss, soft, d});
  near_golden("sm.softmax", soft, 0, 24, 1e-6);
  near_golden("sm.loss", &loss, 0, 1, 1e-6);
  near_golden("sm.grad", d, 0, 24, 1e-6);
  mr_fn_destroy(f);
  mr_fn_destroy(g);
  mr_npy_free(&x);
  mr_npy_free(&labels);
}

static void inputs_that_the_result_does_not_depend_on_have_gradient_zero(void **state) {
  mr_fn_t *f = mr_fn_create(), *g = NULL;
  mr_diag_t diag = {0};
  mr_fn_input(f, mr_aval_of(MR_F32, 3));
  mr_var_t *y = mr_lax_exp(f, mr_fn_input(f, mr_aval_scalar(MR_F32)));
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  assert_int_equal(mr_value_and_grad(f, 1, (int[]){0}, &g, &diag), MR_OK);
  _Alignas(64) float x[3] = {1, 2, 3}, t = 0, value, d[3] = {7, 7, 7};
  run(g, (const void *[]){x, &t}, (void *[]){&value, d});
  assert_true(value == 1 && d[0] == 0 && d[1] == 0 && d[2] == 0);
  mr_fn_destroy(f);
  mr_fn_destroy(g);
}

static void grad_of_a_vector_and_by_a_missing_input_are_refused(void **state) {
  mr_fn_t *f = mr_fn_create(), *g = NULL;
  mr_diag_t diag = {0};
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 4));
  mr_var_t *y = mr_lax_gelu(f, x, MR_GELU_TANH);
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  assert_int_equal(mr_value_and_grad(f, 1, (int[]){0}, &g, &diag), MR_ERR_SHAPE);
  assert_string_equal(diag.text, "grad: output 0 must be a scalar of floats, is f32[4]");
  diag = (mr_diag_t){0};
  mr_fn_t *s = sum_of(f, 0);
  assert_int_equal(mr_value_and_grad(s, 1, (int[]){1}, &g, &diag), MR_ERR_SHAPE);
  assert_string_equal(diag.text, "grad: no input 1 among 1");
  mr_fn_destroy(f);
  mr_fn_destroy(s);
}

static void grad_of_integers_is_refused(void **state) {
  mr_fn_t *f = mr_fn_create(), *g = NULL;
  mr_diag_t diag = {0};
  mr_var_t *y = mr_lax_convert(f, mr_fn_input(f, mr_aval_scalar(MR_I32)), MR_F32);
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  assert_int_equal(mr_grad(f, 1, (int[]){0}, &g, &diag), MR_ERR_SHAPE);
  assert_string_equal(diag.text, "grad: input 0 is i32[], want floats");
  mr_fn_destroy(f);
}

/* x -> (x^2, whether x is above 1, the sum of x as an integer): two results have no cotangent. */
static void results_that_are_no_floats_pass_no_cotangents_on(void **state) {
  mr_fn_t *f = mr_fn_create(), *g = NULL;
  mr_diag_t diag = {0};
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 2)), *y[3];
  mr_var_t *sum = mr_lax_reduce_sum(f, x, 1, (int[]){0});
  mr_var_t *all = mr_lax_broadcast_in_dim(f, mr_lax_gt(f, x, mr_literal(f, MR_F32, 1)), 2,
                                          (int64_t[]){3, 2}, (int[]){1});
  y[0] = mr_lax_mul(f, x, x), y[1] = all, y[2] = mr_lax_convert(f, sum, MR_I32);
  y[2] = mr_lax_broadcast_in_dim(f, y[2], 1, (int64_t[]){4}, NULL);
  assert_int_equal(mr_fn_return(f, 3, y), MR_OK);
  if (mr_vjp(f, 1, (int[]){0}, &g, &diag) < 0) fail_msg("%s", diag.text);
  _Alignas(64) float at[2] = {1, 3}, ct[2] = {1, 2}, dx[2];
  _Alignas(64) uint8_t of_bools[6] = {1, 1, 1, 1, 1, 1};
  _Alignas(64) int32_t of_counts[4] = {1, 1, 1, 1};
  run(g, (const void *[]){at, ct, of_bools, of_counts}, (void *[]){dx});
  assert_true(dx[0] == 2 && dx[1] == 12);
  mr_fn_destroy(f);
  mr_fn_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(primitives_and_two_derivatives_are_jax_s),
      cmocka_unit_test(the_vjp_of_a_product_is_jax_s),
      cmocka_unit_test(softmax_and_cross_entropy_are_jax_s),
      cmocka_unit_test(inputs_that_the_result_does_not_depend_on_have_gradient_zero),
      cmocka_unit_test(grad_of_a_vector_and_by_a_missing_input_are_refused),
      cmocka_unit_test(grad_of_integers_is_refused),
      cmocka_unit_test(results_that_are_no_floats_pass_no_cotangents_on),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
