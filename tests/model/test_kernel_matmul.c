/* Products by oneDNN against f64 sums, over random shapes, strides, batches and dtypes. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model/backends/cpu/matmul_private.h"

static uint64_t rng = 88172645463325252u;
static uint64_t next(void) {
  rng ^= rng << 13, rng ^= rng >> 7;
  return rng ^= rng << 17;
}
static int64_t below(int64_t n) { return (int64_t)(next() % (uint64_t)n); }

static void *filled(mr_dtype_t t, int64_t n) {
  void *x = malloc((size_t)n * mr_dtype_size(t));
  assert_non_null(x);
  for (int64_t i = 0; i < n; i++) {
    float v = (float)below(2001) / 1000 - 1;
    if (t == MR_F32)
      ((float *)x)[i] = v;
    else
      ((mr_bf16_t *)x)[i] = mr_bf16_from_f32(v);
  }
  return x;
}

static double at(mr_dtype_t t, const void *x, int64_t i) {
  return t == MR_F32 ? ((const float *)x)[i] : mr_bf16_to_f32(((const mr_bf16_t *)x)[i]);
}

static void compare(const mr_matmul_spec_t *s, const void *a, const void *b, const void *bias,
                    const void *out, int64_t z, int64_t i, int64_t j) {
  double sum = s->bias ? at(s->bias_dtype, bias, j) : 0, size = fabs(sum);
  for (int64_t k = 0; k < s->k; k++) {
    double v = at(s->a, a, z * s->a_batch + i * s->a_row + k * s->a_col) *
               at(s->b, b, z * s->b_batch + k * s->b_row + j * s->b_col);
    sum += v, size += fabs(v);
  }
  double got = at(s->out, out, z * s->out_batch + i * s->out_row + j);
  double tolerance = 2e-6 * size + (s->out == MR_BF16 ? fabs(sum) / 250 : 0) + 1e-6;
  if (!(fabs(got - sum) <= tolerance))
    fail_msg("(%d,%d,%d) of %d x (%d,%d)(%d,%d): %g instead of %g", (int)z, (int)i, (int)j,
             (int)s->batch, (int)s->m, (int)s->k, (int)s->k, (int)s->n, got, sum);
}

/* What a run makes of b serves another run, which gives the same bytes. */
static void check_kept(const mr_matmul_spec_t *s, mr_matmul_t *p, const void *a, const void *b,
                       const void *bias, const void *want) {
  mr_matmul_kept_t k = mr_matmul_kept(p);
  if (!k.bytes) return;
  size_t bytes = (size_t)(s->batch * s->out_batch) * mr_dtype_size(s->out);
  void *kept = aligned_alloc(64, (k.bytes + 63) / 64 * 64), *out = malloc(bytes);
  for (int round = 0; round < 2; round++) {
    memcpy(out, want, bytes);
    for (int64_t i = 0; i < s->batch * s->m; i++)
      memset((char *)out + (size_t)(i * s->out_row) * mr_dtype_size(s->out), 0xFF,
             (size_t)s->n * mr_dtype_size(s->out));
    mr_matmul_run_kept(p, a, b, s->bias ? bias : NULL, out, kept, round == 0);
    assert_memory_equal(out, want, bytes);
  }
  free(kept), free(out);
}

/* Runs s; looks at every element of small results, at some 2000 of large ones, and at what lies
   between the rows of out. */
static void check(const mr_matmul_spec_t *s) {
  mr_diag_t diag = {0};
  mr_matmul_t *p;
  void *a = filled(s->a, s->batch * s->m * s->k + 64),
       *b = filled(s->b, s->batch * s->k * s->n + 64);
  void *bias = filled(s->bias_dtype, s->n), *out = filled(s->out, s->batch * s->out_batch);
  void *before = malloc((size_t)(s->batch * s->out_batch) * mr_dtype_size(s->out));
  memcpy(before, out, (size_t)(s->batch * s->out_batch) * mr_dtype_size(s->out));
  assert_int_equal(mr_matmul_create(s, &p, &diag), MR_OK);
  for (int twice = 0; twice < 2; twice++) mr_matmul_run(p, a, b, s->bias ? bias : NULL, out);
  int64_t total = s->batch * s->m * s->n, step = total > 4000 ? total / 2000 : 1;
  for (int64_t e = below(step); e < total; e += step)
    compare(s, a, b, bias, out, e / s->n / s->m, e / s->n % s->m, e % s->n);
  for (int64_t e = 0; e < s->batch * s->out_batch; e++)
    if (e % s->out_batch % s->out_row >= s->n)
      assert_true(at(s->out, out, e) == at(s->out, before, e));
  check_kept(s, p, a, b, bias, out);
  mr_matmul_destroy(p);
  free(a), free(b), free(bias), free(out), free(before);
}

static mr_matmul_spec_t spec_of(int64_t batch, int64_t m, int64_t n, int64_t k, bool ta, bool tb,
                                mr_dtype_t in, mr_dtype_t out) {
  return (mr_matmul_spec_t){.batch = batch,
                            .m = m,
                            .n = n,
                            .k = k,
                            .a_batch = m * k,
                            .a_row = ta ? 1 : k,
                            .a_col = ta ? m : 1,
                            .b_batch = k * n,
                            .b_row = tb ? 1 : n,
                            .b_col = tb ? k : 1,
                            .out_batch = m * n,
                            .out_row = n,
                            .a = in,
                            .b = in,
                            .out = out,
                            .bias_dtype = MR_F32};
}

static void products_of_random_shapes_agree_with_f64(void **state) {
  for (int i = 0; i < 200; i++) {
    mr_dtype_t in = below(2) ? MR_F32 : MR_BF16;
    mr_matmul_spec_t s = spec_of(below(3) ? 1 : 1 + below(5), 1 + below(below(4) ? 40 : 300),
                                 1 + below(90), 1 + below(200), below(2), below(2), in,
                                 in == MR_F32 || below(2) ? MR_F32 : MR_BF16);
    s.bias = below(2);
    s.bias_dtype = s.out == MR_BF16 && below(2) ? MR_BF16 : MR_F32;
    s.out_row += below(2) * below(20);
    s.out_batch = s.out_row * s.m;
    check(&s);
  }
}

/* oneDNN keeps primitives in a cache which does not tell them apart by the stride of a dimension of
   size 1: whichever of two layouts comes first, the other must not get its scratch memory. */
static void layouts_that_differ_where_a_size_is_1_agree_with_f64(void **state) {
  for (int i = 0; i < 2000; i++) {
    int64_t size[3] = {1 + below(4), 1 + below(4), 1 + below(4)};
    size[below(3)] = 1;
    mr_dtype_t in = below(2) ? MR_F32 : MR_BF16;
    mr_matmul_spec_t s =
        spec_of(1 + below(3), size[0], size[1], size[2], below(2), below(2), in, in);
    if (s.k == 1 && s.a_row == 1) s.a_col = 1 + below(40);
    if (s.m == 1 && s.a_col == 1) s.a_row = 1 + below(40);
    if (s.n == 1 && s.b_row == 1) s.b_col = 1 + below(40);
    if (s.k == 1 && s.b_col == 1) s.b_row = 1 + below(40);
    check(&s);
  }
}

static void the_plain_product_agrees_with_f64(void **state) {
  for (int i = 0; i < 8; i++) {
    mr_matmul_spec_t s = spec_of(1 + (i & 1), 7, 9, 33, i & 2, i & 4, i & 1 ? MR_F32 : MR_BF16,
                                 i & 1 ? MR_F32 : MR_BF16);
    s.bias = i & 2;
    void *a = filled(s.a, s.batch * 7 * 33), *b = filled(s.b, s.batch * 33 * 9);
    void *bias = filled(MR_F32, 9), *out = filled(s.out, s.batch * 7 * 9);
    mr__matmul_plain(&s, a, b, bias, out);
    for (int64_t e = 0; e < s.batch * 7 * 9; e++)
      compare(&s, a, b, bias, out, e / 63, e / 9 % 7, e % 9);
    free(a), free(b), free(bias), free(out);
  }
}

static void many_rows_with_packed_weights_agree_with_f64(void **state) {
  for (int i = 0; i < 12; i++) {
    mr_matmul_spec_t s = spec_of(1, 1024 + below(700), 1 + below(400), 1 + below(400), i & 1, i & 2,
                                 i % 3 ? MR_BF16 : MR_F32, i % 3 == 1 ? MR_BF16 : MR_F32);
    s.bias = i & 1;
    check(&s);
  }
  mr_matmul_spec_t s = spec_of(1, 1100, 72, 2077, false, false, MR_F32, MR_F32);
  check(&s); /* its sum is cut, with a shorter part at the end */
}

static void weight_gradients_sum_over_all_tokens(void **state) {
  mr_matmul_spec_t s = spec_of(1, 96, 80, 8320, true, false, MR_BF16, MR_F32);
  check(&s);
  s = spec_of(1, 80, 128, 4171, true, false, MR_BF16, MR_F32);
  check(&s);
  s = spec_of(1, 1100, 40, 2000, true, false, MR_BF16, MR_F32);
  check(&s);
  s = spec_of(1, 71, 67, 2051, true, false, MR_BF16, MR_BF16);
  s.bias = true;
  check(&s);
  s = spec_of(1, 64, 48, 4160, true, false, MR_F32, MR_F32);
  check(&s);
}

static void a_turned_matrix_holds_columns_and_then_zeros(void **state) {
  enum { ROWS = 333, COLS = 77, STRIDE = 81, LD = 352 };
  if (!mr__turn_works()) skip();
  mr_bf16_t *x = filled(MR_BF16, ROWS * STRIDE), *out = aligned_alloc(64, COLS * LD * 2);
  mr__turn(x, STRIDE, ROWS, COLS, out, LD);
  for (int c = 0; c < COLS; c++)
    for (int i = 0; i < LD; i++)
      assert_int_equal(out[c * LD + i], i < ROWS ? x[i * STRIDE + c] : 0);
  free(x), free(out);
}

static void a_packed_matrix_holds_rows_in_pairs_and_then_zeros(void **state) {
  enum { K = 333, TO = 352, N = 192, STRIDE = 200 };
  mr_matmul_spec_t s = {.k = K, .n = N, .b = MR_BF16, .b_row = STRIDE, .b_col = 1};
  if (!mr__pairs_work(&s)) skip();
  mr_bf16_t *x = filled(MR_BF16, K * STRIDE), *out = aligned_alloc(64, TO * N * 2), *to = out;
  mr__pairs_pack(&s, x, out);
  for (int j = 0; j < N; j += 64)
    for (int i = 0; i < TO; i += 2)
      for (int lane = 0; lane < 128; lane++, to++) {
        int row = i + lane % 2;
        assert_int_equal(*to, row < K ? x[row * STRIDE + j + lane / 2] : 0);
      }
  free(x), free(out);
}

static void *many(void *arg) {
  const float *a = arg;
  mr_matmul_spec_t s = spec_of(1, 1024, 32, 48, false, true, MR_F32, MR_F32);
  float *out = malloc(1024 * 32 * 4);
  size_t wrong = 0;
  for (int round = 0; round < 8; round++) {
    mr_matmul_t *p;
    if (mr_matmul_create(&s, &p, NULL) < 0) return (void *)1;
    mr_matmul_run(p, a, a, NULL, out);
    mr_matmul_destroy(p);
    for (int64_t i = 0; i < 1024 * 32; i += 37) {
      double sum = 0;
      for (int64_t k = 0; k < 48; k++) sum += (double)a[i / 32 * 48 + k] * a[i % 32 * 48 + k];
      wrong += !(fabs(sum - out[i]) < 1e-4);
    }
  }
  free(out);
  return (void *)wrong;
}

static void threads_multiply_at_the_same_time(void **state) {
  pthread_t t[3];
  float *a = filled(MR_F32, 1024 * 48);
  for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&t[i], NULL, many, a), 0);
  for (int i = 0; i < 3; i++) {
    void *wrong;
    pthread_join(t[i], &wrong);
    assert_null(wrong);
  }
  free(a);
}

static void a_product_of_mixed_dtypes_is_refused(void **state) {
  mr_diag_t diag = {0};
  mr_matmul_t *p;
  mr_matmul_spec_t s = spec_of(1, 4, 4, 4, false, false, MR_F32, MR_F32);
  s.b = MR_BF16;
  assert_int_equal(mr_matmul_create(&s, &p, &diag), MR_ERR_SHAPE);
  assert_non_null(strstr(diag.text, "f32 by bf16"));
  assert_null(p);
}

/* oneDNN reads ONEDNN_MAX_CPU_ISA once a process, so this runs in one of its own. */
static void bf16_is_widened_where_onednn_lacks_it(void **state) {
  mr_matmul_spec_t s = spec_of(3, 65, 24, 48, false, true, MR_BF16, MR_BF16);
  mr_matmul_t *p;
  assert_int_equal(mr_matmul_create(&s, &p, NULL), MR_OK);
  assert_true(mr_matmul_workspace(p) >= 3 * (65 * 48 + 48 * 24 + 65 * 24) * sizeof(float));
  mr_matmul_destroy(p);
}

static const struct CMUnitTest without_avx512[] = {
    cmocka_unit_test(bf16_is_widened_where_onednn_lacks_it),
    cmocka_unit_test(products_of_random_shapes_agree_with_f64),
    cmocka_unit_test(layouts_that_differ_where_a_size_is_1_agree_with_f64),
    cmocka_unit_test(many_rows_with_packed_weights_agree_with_f64),
    cmocka_unit_test(weight_gradients_sum_over_all_tokens),
};

static void products_agree_without_avx512(void **state) {
#if defined(__x86_64__)
  static const char *const sets[] = {"AVX2", "SSE41"};
  for (int i = 0; i < 2; i++) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
      setenv("ONEDNN_MAX_CPU_ISA", sets[i], 1);
      unsetenv("MILLRACE_ISA"); /* which would have the last word */
      execl("/proc/self/exe", "test", "child", NULL);
      _exit(99);
    }
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    if (status) fail_msg("below %s a test failed (status %d)", sets[i], status);
  }
#else
  skip();
#endif
}

int main(int argc, char **argv) {
  if (argc > 1) return cmocka_run_group_tests(without_avx512, NULL, NULL);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products_of_random_shapes_agree_with_f64),
      cmocka_unit_test(layouts_that_differ_where_a_size_is_1_agree_with_f64),
      cmocka_unit_test(the_plain_product_agrees_with_f64),
      cmocka_unit_test(many_rows_with_packed_weights_agree_with_f64),
      cmocka_unit_test(weight_gradients_sum_over_all_tokens),
      cmocka_unit_test(a_turned_matrix_holds_columns_and_then_zeros),
      cmocka_unit_test(a_packed_matrix_holds_rows_in_pairs_and_then_zeros),
      cmocka_unit_test(threads_multiply_at_the_same_time),
      cmocka_unit_test(products_agree_without_avx512),
      cmocka_unit_test(a_product_of_mixed_dtypes_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
