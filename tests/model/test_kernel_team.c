/* The kernels as the graph calls them, on an OpenMP team: what 1, 2 and 3 threads compute is the
   same to the bit, and right by the oracle; cross-entropy against f64. */
#include <math.h>
#include <omp.h>

#include "model/backends/cpu/rows.h"
#include "tests/vectors.h"

enum { ROWS = 331, C = 197, N = ROWS * C };
static float a[N], b[N], m[N], v[N], scale[C], bias[C];
static mr_bf16_t an[N];

/* Everything that a kernel writes. */
typedef struct result {
  float x[N], y[N], z[N], c[2][C], row[2][ROWS];
  mr_bf16_t n[N];
  double sum;
} result_t;
static result_t one, two;

static uint64_t seed = 5;
static float uniform(void) { /* [-1,1) */
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (float)((double)(int64_t)seed * 0x1p-63);
}

static int fill(void **state) {
  for (int i = 0; i < N; i++) {
    a[i] = 3 * uniform(), b[i] = uniform(), m[i] = uniform(), v[i] = fabsf(uniform());
    an[i] = mr_bf16_from_f32(a[i]);
  }
  for (int j = 0; j < C; j++) scale[j] = uniform(), bias[j] = uniform();
  return 0;
}

static void layer_norm(result_t *r) {
  void *scratch = malloc(mr_layer_norm_scratch(ROWS, C));
  mr_layer_norm_fwd(MR_F32, a, scale, bias, 1e-6f, true, MR_BF16, r->n, r->row[0], r->row[1], ROWS,
                    C);
  mr_layer_norm_bwd(MR_F32, a, scale, r->row[0], r->row[1], MR_F32, b, r->x, r->c[0], r->c[1],
                    scratch, ROWS, C);
  free(scratch);
}

static void gelu(result_t *r) {
  mr_gelu_fwd(MR_GELU_TANH, MR_F32, a, r->x, N);
  mr_gelu_bwd(MR_GELU_ERF, MR_F32, a, b, r->y, N);
}

static void elements(result_t *r) {
  mr_convert(MR_F32, a, MR_BF16, r->n, N);
  mr_dropout(MR_F32, a, r->y, N, 0.3f, 8, 2, 1, 0);
}

static const mr_adamw_step_t adamw_step = {1e-3f, 0.9f, 0.999f, 1e-8f, 1e-2f, 0.271f, 0.003f, 1};
static void adamw(result_t *r) {
  mr_adamw(&adamw_step, a, b, m, v, r->x, r->y, r->z, N);
  r->sum = mr_sum_squares(a, N);
}

/* Runs call with 1, 2 and 3 threads; `one` holds the result. */
static void same_bits(void (*call)(result_t *r)) {
  memset(&one, 0, sizeof one);
  omp_set_num_threads(1);
  call(&one);
  for (int n = 2; n <= 3; n++) {
    memset(&two, 0, sizeof two);
    omp_set_num_threads(n);
    call(&two);
    assert_memory_equal(&one, &two, sizeof one);
  }
}

static void near(double got, double want, double tolerance) {
  if (!(fabs(got - want) <= tolerance * fmax(1, fabs(want))))
    fail_msg("%.9g instead of %.9g", got, want);
}

static void layer_norm_has_the_same_bits(void **state) {
  static float x[N], mean[ROWS], rstd[ROWS], ds[C], db[C];
  static mr_bf16_t n[N];
  same_bits(layer_norm);
  mr__rows()->layer_norm_fwd(MR_F32, a, scale, bias, 1e-6f, true, MR_BF16, n, mean, rstd, 0, ROWS,
                             C);
  mr__rows()->layer_norm_bwd(MR_F32, a, scale, mean, rstd, MR_F32, b, x, ds, db, 0, ROWS, C);
  assert_memory_equal(one.n, n, sizeof n);
  assert_memory_equal(one.x, x, sizeof x);
  for (int j = 0; j < C; j++) near(one.c[0][j], ds[j], 1e-5), near(one.c[1][j], db[j], 1e-5);
}

static void gelu_has_the_same_bits(void **state) {
  same_bits(gelu);
  for (int i = 0; i < N; i++) {
    double x = a[i], u = 0.7978845608028654 * (x + 0.044715 * x * x * x);
    double erf_slope = 0.5 * erfc(-x * M_SQRT1_2) + x * exp(-x * x / 2) / sqrt(2 * M_PI);
    near(one.x[i], 0.5 * x * (1 + tanh(u)), 1e-6);
    near(one.y[i], erf_slope * b[i], 1e-6);
  }
}

static void element_kernels_have_the_same_bits(void **state) {
  same_bits(elements);
  int kept = 0;
  for (int i = 0; i < N; i++) {
    assert_int_equal(one.n[i], mr_bf16_from_f32(a[i]));
    kept += one.y[i] != 0;
    if (one.y[i] != 0) near(one.y[i], (double)a[i] / (1 - (double)0.3f), 1e-6);
  }
  assert_true(abs(kept - N * 7 / 10) < N / 50);
}

static void adamw_has_the_same_bits(void **state) {
  static float p[N], m2[N], v2[N];
  double sum = 0;
  same_bits(adamw);
  mr__rows_plain.adamw(&adamw_step, a, b, m, v, p, m2, v2, 0, N);
  for (int i = 0; i < N; i++) {
    near(one.x[i], p[i], 1e-6), near(one.y[i], m2[i], 1e-6), near(one.z[i], v2[i], 1e-6);
    sum += (double)a[i] * a[i];
  }
  near(one.sum, sum, 1e-12);
}

/* Loss and slope of one row, with smoothing, in f64. */
static void expect_loss(const float *x, int label, double smoothing, int n, double dloss,
                        const float *d, double loss) {
  double top = -INFINITY, sum = 0, want = 0;
  for (int c = 0; c < n; c++) top = fmax(top, x[c]);
  for (int c = 0; c < n; c++) sum += exp(x[c] - top);
  for (int c = 0; c < n; c++) {
    double target = (c == label ? 1 - smoothing : 0) + smoothing / n;
    double log_p = x[c] - top - log(sum);
    want -= target * log_p;
    near(d[c], (exp(log_p) - target) * dloss, 1e-6);
  }
  near(loss, want, 2e-6);
}

static void cross_entropy_agrees_with_f64(void **state) {
  enum { B = 7 };
  static const float spread[] = {1, 30, 1000};
  float x[B * 100], d[B * 100], loss[B], dloss[B];
  int32_t label[B];
  for (int n = 1; n <= 100; n += 33)
    for (int k = 0; k < 6; k++) {
      float smoothing = k & 1 ? 0.1f : 0;
      for (int i = 0; i < B * n; i++) x[i] = spread[k / 2] * uniform();
      for (int i = 0; i < B; i++) label[i] = (i * 13) % n, dloss[i] = uniform();
      mr_xent_fwd(x, label, smoothing, loss, B, n);
      mr_xent_bwd(x, label, smoothing, dloss, d, B, n);
      for (int i = 0; i < B; i++)
        expect_loss(x + i * n, label[i], (double)smoothing, n, dloss[i], d + i * n, loss[i]);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(layer_norm_has_the_same_bits),
      cmocka_unit_test(gelu_has_the_same_bits),
      cmocka_unit_test(element_kernels_have_the_same_bits),
      cmocka_unit_test(adamw_has_the_same_bits),
      cmocka_unit_test(cross_entropy_agrees_with_f64),
  };
  return cmocka_run_group_tests(tests, fill, NULL);
}
