/* What ops without golden values give, against numbers written out; integers and edges as in
   jax. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdio.h>

#include "base/dataset.h"
#include "base/philox.h"
#include "tests/model/grid.h"

/* y of a graph f (destroyed) whose inputs are in[] gives want[]. */
static void gives(mr_fn_t *f, mr_var_t *y, double *const *in, const double *want) {
  double *got[1], *w[1] = {(double *)(uintptr_t)want};
  if (mr_fn_return(f, 1, &y) < 0) fail_msg("%s", f->diag.text);
  run_as_it_is(f, in, got);
  assert_near(y->def->op->name, f, got, w, 1e-6);
  free(got[0]);
  mr_fn_destroy(f);
}

static double grid[6] = {1, 2, 3, 4, 5, 6}, *one[1] = {grid};

#define ON_GRID(want, expr)                                 \
  do {                                                      \
    mr_fn_t *f = mr_fn_create();                            \
    mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 2, 3)); \
    gives(f, expr, one, (const double[]){NUMBERS want});    \
  } while (0)
#define NUMBERS(...) __VA_ARGS__

static void sums_and_turns_go_along_their_dimension(void **state) {
  ON_GRID((1, 3, 6, 4, 9, 15), mr_lax_cumsum(f, x, 1, false));
  ON_GRID((6, 5, 3, 15, 11, 6), mr_lax_cumsum(f, x, 1, true));
  ON_GRID((1, 2, 3, 5, 7, 9), mr_lax_cumsum(f, x, 0, false));
  ON_GRID((3, 2, 1, 6, 5, 4), mr_lax_rev(f, x, 1, (int[]){1}));
  ON_GRID((4, 5, 6, 1, 2, 3), mr_lax_rev(f, x, 1, (int[]){0}));
  ON_GRID((6, 5, 4, 3, 2, 1), mr_lax_rev(f, x, 2, (int[]){0, 1}));
}

static double rounded(mr_dtype_t t, double v) {
  float wide;
  mr_set_f64(t, &wide, 0, v);
  return mr_get_f64(t, &wide, 0);
}

/* [outer, rows, n] over its middle: f32 sums row by row, rounded once; NaN is the largest. */
static void dimensions_in_the_middle_are_reduced_row_by_row(void **state) {
  const int64_t sizes[][3] = {{5, 33, 70}, {3, 4, 7}, {40, 50, 64}, {2, 300, 5}};
  for (int k = 0; k < 8; k++) {
    const int64_t *d = sizes[k / 2], n = d[2];
    mr_dtype_t t = k % 2 ? MR_BF16 : MR_F32;
    double *x = doubles(d[0] * d[1] * n), *want[2] = {doubles(d[0] * n), doubles(d[0] * n)},
           *got[2];
    for (int64_t i = 0; i < d[0] * d[1] * n; i++) x[i] = rounded(t, random_in(-3, 3));
    x[n + 1] = NAN;
    for (int64_t o = 0; o < d[0]; o++)
      for (int64_t j = 0; j < n; j++) {
        float sum = 0, most = -INFINITY;
        for (int64_t r = 0; r < d[1]; r++) {
          float v = (float)x[(o * d[1] + r) * n + j];
          sum += v, most = v > most || isnan(v) ? v : most;
        }
        want[0][o * n + j] = rounded(t, (double)sum), want[1][o * n + j] = (double)most;
      }
    mr_fn_t *f = mr_fn_create();
    mr_var_t *v = mr_fn_input(f, mr_aval_of(t, d[0], d[1], n));
    v = mr_lax_reshape_to(f, v, d[0], 1, d[1], 1, n); /* sizes of 1 do not part them */
    mr_var_t *y[] = {mr_lax_reduce_sum(f, v, 1, (int[]){2}),
                     mr_lax_reduce_max(f, v, 2, (int[]){2, 3})};
    assert_int_equal(mr_fn_return(f, 2, y), MR_OK);
    run_as_it_is(f, &x, got);
    assert_near("middle", f, got, want, 0);
    free(x), free_all(2, want), free_all(2, got);
    mr_fn_destroy(f);
  }
}

static void take_gives_rows_and_its_transpose_adds_them(void **state) {
  double index[3] = {1, 0, 7}, *in[] = {grid, index};
  mr_fn_t *f = mr_fn_create(), *v = NULL;
  mr_diag_t diag = {0};
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 2, 3));
  mr_var_t *y = mr_lax_take(f, x, mr_fn_input(f, mr_aval_of(MR_I32, 3)));
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  assert_int_equal(mr_vjp(f, 1, (int[]){0}, &v, &diag), MR_OK);
  double dy[9] = {1, 2, 3, 10, 20, 30, 100, 200, 300}, *back[] = {grid, index, dy}, *got[1];
  double want[6] = {10, 20, 30, 101, 202, 303}, *w[] = {want};
  run_as_it_is(v, back, got);
  assert_near("take_vjp", v, got, w, 0);
  free(got[0]);
  mr_fn_destroy(v);
  gives(f, y, in, (double[]){4, 5, 6, 1, 2, 3, 4, 5, 6});
}

static void select_takes_the_second_case_where_true(void **state) {
  double which[3] = {0, 1, 0}, a[3] = {1, 2, 3}, b[3] = {7, 8, 9}, *in[] = {which, a, b};
  mr_fn_t *f = mr_fn_create();
  mr_var_t *v[3];
  for (int i = 0; i < 3; i++) v[i] = mr_fn_input(f, mr_aval_of(i ? MR_F32 : MR_BOOL, 3));
  gives(f, mr_lax_select_n(f, v[0], v[1], v[2]), in, (double[]){1, 8, 3});
}

/* A binary op on i32 or f32 vectors of three. */
static void pairs(mr_var_t *(*op)(mr_fn_t *, mr_var_t *, mr_var_t *), mr_dtype_t t, const double *a,
                  const double *b, const double *want) {
  double *in[] = {(double *)(uintptr_t)a, (double *)(uintptr_t)b};
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(t, 3)), *y = mr_fn_input(f, mr_aval_of(t, 3));
  gives(f, op(f, x, y), in, want);
}

static void integers_wrap_and_divide_as_in_jax(void **state) {
  const double a[3] = {2147483647, -7, 65536}, b[3] = {1, 0, 65536};
  pairs(mr_lax_add, MR_I32, a, b, (double[]){-2147483648.0, -7, 131072});
  pairs(mr_lax_mul, MR_I32, a, b, (double[]){2147483647, 0, 0});
  pairs(mr_lax_div, MR_I32, a, b, (double[]){2147483647, -1, 1});
  pairs(mr_lax_sub, MR_U32, (double[]){0, 5, 1}, (double[]){1, 2, 1},
        (double[]){4294967295.0, 3, 0});
  pairs(mr_lax_max, MR_I32, a, b, (double[]){2147483647, 0, 65536});
}

static void comparisons_and_powers_know_nan(void **state) {
  const double a[3] = {1, 2, NAN}, b[3] = {2, 2, 1};
  pairs(mr_lax_lt, MR_F32, a, b, (double[]){1, 0, 0});
  pairs(mr_lax_le, MR_F32, a, b, (double[]){1, 1, 0});
  pairs(mr_lax_gt, MR_F32, a, b, (double[]){0, 0, 0});
  pairs(mr_lax_ge, MR_F32, a, b, (double[]){0, 1, 0});
  pairs(mr_lax_ne, MR_F32, a, b, (double[]){1, 0, 1});
  pairs(mr_lax_pow, MR_F32, a, b, (double[]){1, 4, NAN});
  pairs(mr_lax_max, MR_F32, a, b, (double[]){2, 2, NAN});
}

static void conversions_to_integers_saturate_and_nan_is_zero(void **state) {
  double x[4] = {3e9, -3e9, NAN, -1.9}, *in[] = {x};
  mr_fn_t *f = mr_fn_create();
  mr_var_t *v = mr_fn_input(f, mr_aval_of(MR_F32, 4));
  gives(f, mr_lax_convert(f, v, MR_I32), in, (double[]){2147483647, -2147483648.0, 0, -1});
}

/* op of x, alone and in a row long enough for the vector kernels, and its slope, are as in jax. */
static void edge(mr_var_t *(*op)(mr_fn_t *, mr_var_t *), double x, double value, double slope) {
  enum { ROW = 70 };
  for (int64_t n = 1; n <= ROW; n += ROW - 1) {
    mr_fn_t *f = mr_fn_create(), *j = NULL;
    mr_diag_t diag = {0};
    mr_var_t *y = op(f, mr_fn_input(f, mr_aval_of(MR_F32, n)));
    assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
    assert_int_equal(mr_jvp(f, 1, (int[]){0}, &j, &diag), MR_OK);
    double at[ROW], one_each[ROW], *in[] = {at, one_each}, *out[2];
    for (int i = 0; i < ROW; i++) at[i] = x, one_each[i] = 1;
    run_as_it_is(j, in, out);
    for (int64_t i = 0; i < n; i++)
      for (int k = 0; k < 2; k++) {
        double got = out[k][i], want = k ? slope : value;
        if (got != want && !(isnan(got) && isnan(want)) && !(fabs(got - want) < 1e-6))
          fail_msg("%s of %g in a row of %lld: %s is %g, want %g", y->def->op->name, x,
                   (long long)n, k ? "its slope" : "it", got, want);
      }
    free_all(2, out);
    mr_fn_destroy(f);
    mr_fn_destroy(j);
  }
}

static void overflow_and_nan_are_as_in_jax(void **state) {
  edge(mr_lax_exp, 89, INFINITY, INFINITY);
  edge(mr_lax_exp, -200, 0, 0);
  edge(mr_lax_exp, NAN, NAN, NAN);
  edge(mr_lax_exp, -INFINITY, 0, 0);
  edge(mr_lax_log, 0, -INFINITY, INFINITY);
  edge(mr_lax_log, -1, NAN, -1);
  edge(mr_lax_log, INFINITY, INFINITY, 0);
  edge(mr_lax_sqrt, 0, 0, INFINITY);
  edge(mr_lax_sqrt, -1, NAN, NAN);
  edge(mr_lax_tanh, 1e30, 1, 0);
  edge(mr_lax_tanh, -INFINITY, -1, 0);
  edge(mr_lax_tanh, NAN, NAN, NAN);
  edge(mr_lax_sin, INFINITY, NAN, NAN);
  edge(mr_lax_cos, NAN, NAN, NAN);
  edge(mr_lax_logistic, -200, 0, 0);
  edge(mr_lax_logistic, 200, 1, 0);
  edge(mr_lax_log1p, -1, -INFINITY, INFINITY);
  edge(mr_lax_expm1, 89, INFINITY, INFINITY);
  edge(mr_lax_rsqrt, 0, INFINITY, -INFINITY);
  const double a[3] = {1, -1, 0}, zero[3] = {0, 0, 0}, huge[3] = {3e38, -3e38, 1};
  pairs(mr_lax_div, MR_F32, a, zero, (double[]){INFINITY, -INFINITY, NAN});
  pairs(mr_lax_add, MR_F32, huge, huge, (double[]){INFINITY, -INFINITY, 2});
  pairs(mr_lax_mul, MR_F32, huge, zero, (double[]){0, 0, 0});
}

static void empty_tensors_go_through_every_transform(void **state) {
  mr_fn_t *f = mr_fn_create(), *g = NULL, *v = NULL;
  mr_diag_t diag = {0};
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 0, 3));
  mr_var_t *y = mr_lax_reduce_sum(f, mr_lax_mul(f, mr_lax_sin(f, x), x), 2, (int[]){0, 1});
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  assert_int_equal(mr_value_and_grad(f, 1, (int[]){0}, &g, &diag), MR_OK);
  assert_int_equal(mr_vmap(g, 2, NULL, NULL, &v, &diag), MR_OK);
  double none[1], *in[] = {none}, *out[2];
  run_as_it_is(v, in, out);
  assert_true(out[0][0] == 0 && out[0][1] == 0 && elems(v->out[1]) == 0);
  free_all(2, out);
  mr_fn_destroy(f);
  mr_fn_destroy(g);
  mr_fn_destroy(v);
}

static void products_of_empty_tensors_are_empty_or_zeros(void **state) {
  double a[6] = {1, 2, 3, 4, 5, 6}, none[1], bias[2] = {7, -1}, *out[3];
  mr_fn_t *f = mr_fn_create();
  mr_var_t *wide = mr_fn_input(f, mr_aval_of(MR_F32, 3, 2));
  mr_var_t *no_rows = mr_fn_input(f, mr_aval_of(MR_F32, 0, 3));
  mr_var_t *no_terms = mr_fn_input(f, mr_aval_of(MR_F32, 2, 0));
  mr_var_t *w = mr_fn_input(f, mr_aval_of(MR_F32, 0, 2));
  mr_var_t *b = mr_fn_input(f, mr_aval_of(MR_F32, 2));
  mr_var_t *y[] = {mr_lax_dot(f, no_rows, wide), mr_lax_dot(f, no_terms, w),
                   mr_lax_linear(f, no_terms, w, b, false)};
  assert_int_equal(mr_fn_return(f, 3, y), MR_OK);
  double *in[] = {a, none, none, none, bias};
  run_as_it_is(f, in, out);
  assert_int_equal(elems(f->out[0]), 0);
  for (int i = 0; i < 4; i++) {
    assert_true(out[1][i] == 0);
    assert_true(out[2][i] == bias[i % 2]);
  }
  free_all(3, out);
  mr_fn_destroy(f);
}

/* One label is a class; the fused kernel reads nothing beside the logits of the others. */
static void a_label_that_is_no_class_is_a_one_hot_row_of_zeros(void **state) {
  static double x[16] = {1, 2, 3, -1, 0.5, 4, 5, -2, 3, 3, 3, 9, 1, 2, 3, 4};
  static double label[4] = {2, 1000000, -7, MR_LABEL_NONE};
  double *in[] = {x, label}, want = 9 + log(exp(-6) * 3 + 1);
  mr_fn_t *f = mr_fn_create(), *j = NULL;
  mr_diag_t diag = {0};
  mr_var_t *l = mr_fn_input(f, mr_aval_of(MR_F32, 4, 4));
  mr_var_t *y = mr_lax_softmax_cross_entropy(f, l, mr_fn_input(f, mr_aval_of(MR_I32, 4)), 0.1f),
           *sum;
  sum = mr_lax_reduce_sum(f, y, 1, (int[]){0});
  assert_int_equal(mr_fn_return(f, 2, (mr_var_t *[]){sum, y}), MR_OK);
  if (mr_value_and_grad(f, 1, (int[]){0}, &j, &diag) < 0) fail_msg("%s", diag.text);
  double *a[3], *b[3];
  run_as_it_is(j, in, a);
  run_f64(j, in, b);
  assert_near("loss and gradient", j, a, b, 2e-6);
  want -= 0.1 / 4 * 18; /* logsumexp less the evenly spread tenth */
  assert_true(fabs(a[1][2] - want) < 1e-5);
  assert_true(a[1][3] == 0 && b[1][3] == 0); /* a record that was left out */
  free_all(3, a);
  free_all(3, b);
  mr_fn_destroy(f);
  mr_fn_destroy(j);
}

/* op in t on all pairs of values that f64 holds exactly. */
static double *on_pairs(const mr_op_def_t *op, mr_dtype_t t, mr_fn_t **made) {
  static const double at[] = {
      0, 1, 3, 5e12, 0x1p63 - 0x1p12, 0x1p63, 0x1p63 + 0x1p12, 0x1p64 - 0x1p12};
  enum { N = sizeof at / sizeof *at };
  double a[N * N], b[N * N], *in[] = {a, b}, *got[1];
  for (int i = 0; i < N * N; i++) a[i] = at[i / N], b[i] = at[i % N];
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x[2];
  for (int i = 0; i < op->n_in; i++) x[i] = mr_fn_input(f, mr_aval_of(t, N * N));
  mr_var_t *y = mr_emit1(f, op, op->n_in, x, 0, NULL);
  if (mr_fn_return(f, 1, &y) < 0) fail_msg("%s", f->diag.text);
  run_as_it_is(f, in, got);
  *made = f;
  return got[0];
}

/* Every op of the table that asks for an order or divides: beyond what an i64 can say too. */
static void u64_has_no_sign_in_any_op_that_asks_for_one(void **state) {
  int n = 0;
  for (int i = 0; i < mr_n_ops; i++) {
    const mr_op_def_t *op = mr_ops[i];
    if (!op->cpu.u1 && !op->cpu.u2) continue;
    mr_fn_t *f, *g;
    double *got = on_pairs(op, MR_U64, &f), *want = on_pairs(op, MR_F64, &g);
    for (int64_t k = 0; k < elems(f->out[0]); k++) /* by zero: all ones */
      want[k] = isfinite(want[k]) ? floor(want[k]) : 0x1p64;
    assert_near(op->name, f, &got, &want, 1e-15);
    free(got), free(want);
    mr_fn_destroy(f), mr_fn_destroy(g);
    n++;
  }
  assert_int_equal(n, 8); /* lt, le, gt, ge, max, min, div, sign */
}

static void the_largest_u64_is_found(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_U64, 2, 3));
  double in[] = {3, 0x1p63, 5, 0, 0, 0}, *at[] = {in};
  gives(f, mr_lax_reduce_max(f, x, 1, (int[]){1}), at, (const double[]){0x1p63, 0});
}

/* Of positive terms, whose sum in f32 loses what each part adds: within a last place of f64's, as
   XLA's is within 1e-7. */
static void products_of_long_vectors_are_as_exact_as_f32_holds(void **state) {
  enum { TERMS = 4000000 };
  static const bool rows[] = {false, true};
  float *a = grid_bytes(TERMS * sizeof *a), *b = grid_bytes(TERMS * sizeof *b), got;
  double want = 0;
  mr_philox_t g;
  mr_philox_init(&g, 7, 0);
  for (int i = 0; i < TERMS; i++) {
    a[i] = (float)mr_philox_uniform(&g, 0, 1), b[i] = (float)mr_philox_uniform(&g, 0, 1);
    want += (double)a[i] * (double)b[i];
  }
  for (int k = 0; k < 2; k++) {
    mr_fn_t *f = mr_fn_create();
    mr_diag_t diag = {0};
    mr_exec_t *x = NULL;
    mr_aval_t p = rows[k] ? mr_aval_of(MR_F32, 1, TERMS) : mr_aval_of(MR_F32, TERMS),
              q = rows[k] ? mr_aval_of(MR_F32, TERMS, 1) : p;
    mr_var_t *u = mr_fn_input(f, p), *v = mr_fn_input(f, q), *y = mr_lax_dot(f, u, v);
    assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
    if (mr_compile(f, NULL, &x, &diag) < 0) fail_msg("%s", diag.text);
    mr_exec_run(x, (const void *[]){a, b}, (void *[]){&got});
    if (!(fabs((double)got - want) <= 1e-7 * want))
      fail_msg("%.9g, want %.9g: off by %.2g", (double)got, want, fabs((double)got / want - 1));
    mr_exec_destroy(x);
    mr_fn_destroy(f);
  }
  free(a), free(b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_label_that_is_no_class_is_a_one_hot_row_of_zeros),
      cmocka_unit_test(sums_and_turns_go_along_their_dimension),
      cmocka_unit_test(dimensions_in_the_middle_are_reduced_row_by_row),
      cmocka_unit_test(take_gives_rows_and_its_transpose_adds_them),
      cmocka_unit_test(select_takes_the_second_case_where_true),
      cmocka_unit_test(integers_wrap_and_divide_as_in_jax),
      cmocka_unit_test(comparisons_and_powers_know_nan),
      cmocka_unit_test(conversions_to_integers_saturate_and_nan_is_zero),
      cmocka_unit_test(products_of_empty_tensors_are_empty_or_zeros),
      cmocka_unit_test(overflow_and_nan_are_as_in_jax),
      cmocka_unit_test(empty_tensors_go_through_every_transform),
      cmocka_unit_test(u64_has_no_sign_in_any_op_that_asks_for_one),
      cmocka_unit_test(the_largest_u64_is_found),
      cmocka_unit_test(products_of_long_vectors_are_as_exact_as_f32_holds),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
