/* Precision of f32 products: errors against f64 sums, and the way through transforms. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/backends/cpu/kernels.h"
#include "tests/model/grid.h"

enum { M = 48, N = 40, K = 256 };

static float *filled(int n, uint32_t seed) {
  float *x = aligned_alloc(64, ((size_t)n * sizeof *x + 127) & ~(size_t)63);
  assert_non_null(x);
  for (int i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = (float)(seed >> 8) / (float)(1 << 23) - 1;
  }
  return x;
}

/* The largest error of out = a b against a sum in f64, as a share of the sum of the terms' sizes.
   a and b lie in rows, or in columns where the case says so. */
static double worst(mr_precision_t precision, bool a_turned, bool b_turned) {
  mr_matmul_spec_t s = {.batch = 2, .m = M, .n = N, .k = K, .a = MR_F32, .b = MR_F32};
  s.out = MR_F32, s.precision = precision;
  s.a_row = a_turned ? 1 : K, s.a_col = a_turned ? M : 1, s.a_batch = M * K;
  s.b_row = b_turned ? 1 : N, s.b_col = b_turned ? K : 1, s.b_batch = K * N;
  s.out_row = N, s.out_batch = M * N;
  mr_diag_t diag = {0};
  mr_matmul_t *p;
  float *a = filled(2 * M * K, 1), *b = filled(2 * K * N, 2), *out = filled(2 * M * N, 3);
  if (mr_matmul_create(&s, &p, &diag) < 0) fail_msg("%s", diag.text);
  mr_matmul_run(p, a, b, NULL, out);
  mr_matmul_destroy(p);
  double most = 0;
  for (int at = 0; at < 2 * M * N; at++) {
    int z = at / (M * N), i = at / N % M, j = at % N;
    double sum = 0, size = 0;
    for (int k = 0; k < K; k++) {
      double v = (double)a[z * M * K + i * s.a_row + k * s.a_col] *
                 (double)b[z * K * N + k * s.b_row + j * s.b_col];
      sum += v, size += fabs(v);
    }
    most = fmax(most, fabs((double)out[at] - sum) / size);
  }
  free(a), free(b), free(out);
  return most;
}

/* A bf16 has 8 bits, two of them 16, an f32 24; errors of a sum are smaller than those of a term,
   since they have either sign. */
static void each_precision_has_the_error_it_promises(void **state) {
  for (int lies = 0; lies < 4; lies++) {
    double low = worst(MR_PRECISION_DEFAULT, lies & 1, lies & 2);
    double high = worst(MR_PRECISION_HIGH, lies & 1, lies & 2);
    double full = worst(MR_PRECISION_HIGHEST, lies & 1, lies & 2);
    assert_true(low < 0x1p-8 && low > 0x1p-13);
    assert_true(high < 0x1p-16 && high > 0x1p-22);
    assert_true(full < 0x1p-20 && full < high);
    assert_true(worst(MR_PRECISION_NONE, lies & 1, lies & 2) == full);
  }
}

static float product_of(float a, float b, mr_precision_t precision) {
  mr_matmul_spec_t s = {.batch = 1, .m = 1, .n = 1, .k = 1, .a = MR_F32, .b = MR_F32};
  s.out = MR_F32, s.precision = precision;
  s.a_row = s.a_col = s.b_row = s.b_col = s.out_row = s.a_batch = s.b_batch = s.out_batch = 1;
  mr_matmul_t *p;
  mr_diag_t diag = {0};
  float out = 7;
  if (mr_matmul_create(&s, &p, &diag) < 0) fail_msg("%s", diag.text);
  mr_matmul_run(p, &a, &b, NULL, &out);
  mr_matmul_destroy(p);
  return out;
}

static void infinity_and_nan_pass_through_every_precision(void **state) {
  for (int p = MR_PRECISION_NONE; p <= MR_PRECISION_HIGHEST; p++) {
    assert_true(product_of(INFINITY, 3, (mr_precision_t)p) == INFINITY);
    assert_true(product_of(1.5f, -INFINITY, (mr_precision_t)p) == -INFINITY);
    assert_true(isnan(product_of(NAN, 3, (mr_precision_t)p)));
    assert_true(isnan(product_of(0, INFINITY, (mr_precision_t)p)));
  }
}

/* sum(tanh(x w + b) x'), with products by two ops. */
static mr_fn_t *layered(mr_precision_t p) {
  mr_fn_t *f = mr_fn_create();
  mr_precision_t outer = mr_precision_enter(f, p);
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 3, 4)),
           *w = mr_fn_input(f, mr_aval_of(MR_F32, 4, 4));
  mr_var_t *b = mr_fn_input(f, mr_aval_of(MR_F32, 4));
  mr_var_t *y = mr_lax_tanh(f, mr_lax_linear(f, x, w, b, false));
  y = mr_lax_dot(f, y, w);
  mr_precision_leave(f, outer);
  y = mr_lax_reduce_sum(f, y, 2, (int[]){0, 1});
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  return f;
}

/* Every product of f asks p; their number. */
static int products_asking(const mr_fn_t *f, mr_precision_t p) {
  int n = 0;
  for (int i = 0; i < f->n_eqn; i++) {
    if (!f->eqn[i]->op->cost.product) {
      assert_null(mr_attr_find(f->eqn[i], "precision"));
      continue;
    }
    assert_int_equal(mr_precision_of(f->eqn[i]), p);
    n++;
  }
  return n;
}

static void transforms_carry_the_precision_of_what_they_transform(void **state) {
  for (int p = MR_PRECISION_NONE; p <= MR_PRECISION_HIGHEST; p++) {
    mr_fn_t *f = layered((mr_precision_t)p), *out[4] = {0};
    mr_diag_t diag = {0};
    mr_matmul_precision_set(MR_PRECISION_HIGH); /* not what graphs of other graphs' products ask */
    assert_int_equal(mr_grad(f, 2, (int[]){0, 1}, &out[0], &diag), MR_OK);
    assert_int_equal(mr_jvp(f, 2, (int[]){0, 1}, &out[1], &diag), MR_OK);
    assert_int_equal(mr_vmap(f, 5, NULL, NULL, &out[2], &diag), MR_OK);
    assert_int_equal(mr_open(f, &out[3], &diag), MR_OK);
    mr_matmul_precision_set(MR_PRECISION_NONE);
    for (int i = 0; i < 4; i++) {
      assert_true(products_asking(out[i], (mr_precision_t)p) >= 2);
      mr_fn_destroy(out[i]);
    }
    mr_fn_destroy(f);
  }
}

static void the_jaxpr_says_it_and_is_read_back(void **state) {
  mr_fn_t *f = layered(MR_PRECISION_HIGHEST), *g = NULL, *plain = layered(MR_PRECISION_NONE);
  mr_diag_t diag = {0};
  char *text = mr_fn_text(f), *none = mr_fn_text(plain);
  assert_non_null(strstr(text, "precision=(Precision.HIGHEST, Precision.HIGHEST)"));
  assert_null(strstr(none, "recision"));
  if (mr_fn_parse(text, &g, &diag) < 0) fail_msg("%s", diag.text);
  char *again = mr_fn_text(g);
  assert_string_equal(again, text);
  *strstr(again, "HIGHEST, ") = 'L';
  mr_fn_destroy(g);
  assert_int_equal(mr_fn_parse(again, &g, &diag), MR_ERR_DATA);
  free(text), free(none), free(again);
  mr_fn_destroy(f), mr_fn_destroy(plain);
}

static void the_process_has_a_default(void **state) {
  mr_precision_t p;
  mr_diag_t diag = {0};
  assert_int_equal(mr_precision_parse("x", "bfloat16_3x", &p, &diag), MR_OK);
  mr_matmul_precision_set(p);
  mr_fn_t *f = layered(mr_matmul_precision());
  mr_fn_t *g = mr_fn_create();
  mr_var_t *x = mr_fn_input(g, mr_aval_of(MR_F32, 4, 4));
  x = mr_lax_dot(g, x, x);
  mr_matmul_precision_set(MR_PRECISION_NONE);
  assert_int_equal(products_asking(g, MR_PRECISION_HIGH), 1);
  assert_int_equal(products_asking(f, MR_PRECISION_HIGH), 2);
  assert_int_equal(mr_precision_parse("x", "exact", &p, &diag), MR_ERR_CONFIG);
  assert_non_null(strstr(diag.text, "highest"));
  mr_fn_destroy(f), mr_fn_destroy(g);
}

/* The fused kernel multiplies f32 as f32: it is kept where that is asked, else opened. */
static double attention_error(mr_precision_t p, bool *fused) {
  enum { T = 33, D = 16 };
  mr_fn_t *f = mr_fn_create();
  mr_diag_t diag = {0};
  mr_exec_t *x = NULL;
  mr_precision_enter(f, p);
  mr_var_t *qkv = mr_fn_input(f, mr_aval_of(MR_F32, 2, T, 3, 2, D));
  mr_var_t *o = mr_lax_attention_packed(f, qkv, 0.25f);
  assert_int_equal(mr_fn_return(f, 1, &o), MR_OK);
  if (mr_compile(f, NULL, &x, &diag) < 0) fail_msg("%s", diag.text);
  *fused = mr_exec_fn(x)->eqn[0]->op == &mr_op_attention;
  float *in = filled(2 * T * 3 * 2 * D, 5), *out = filled(2 * T * 2 * D, 6),
        *ref = filled(2 * T * 2 * D, 7);
  mr_exec_run(x, (const void *[]){in}, (void *[]){out});
  const float *q = in, *k = in + 2 * D, *v = in + 4 * D;
  mr_attention_spec_t s = {2, T, 2, D, 6 * D, 6 * D, 6 * D, 2 * D, 0.25f, MR_F32};
  mr_attention_fwd(&s, q, k, v, ref, NULL);
  double most = 0;
  for (int i = 0; i < 2 * T * 2 * D; i++) most = fmax(most, fabs((double)out[i] - (double)ref[i]));
  free(in), free(out), free(ref);
  mr_exec_destroy(x);
  mr_fn_destroy(f);
  return most;
}

static void attention_honours_it_by_opening(void **state) {
  bool fused;
  assert_true(attention_error(MR_PRECISION_HIGHEST, &fused) == 0 && fused);
  double high = attention_error(MR_PRECISION_HIGH, &fused);
  assert_true(!fused && high < 1e-4);
  double low = attention_error(MR_PRECISION_DEFAULT, &fused);
  assert_true(!fused && low < 1e-1 && low > 8 * high);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_precision_has_the_error_it_promises),
      cmocka_unit_test(infinity_and_nan_pass_through_every_precision),
      cmocka_unit_test(transforms_carry_the_precision_of_what_they_transform),
      cmocka_unit_test(the_jaxpr_says_it_and_is_read_back),
      cmocka_unit_test(the_process_has_a_default),
      cmocka_unit_test(attention_honours_it_by_opening),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
