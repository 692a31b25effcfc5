/* The row and element kernels of every instruction set this machine has, against f64. */
#include <math.h>

#include "base/isa.h"
#include "model/backends/cpu/rows.h"
#include "model/backends/cpu/vec_math.h"
#include "tests/vectors.h"

static uint64_t seed = 12;
static double uniform(void) { /* [-1,1) */
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (double)(int64_t)seed * 0x1p-63;
}

enum { MAX = 70000 };
static float xf[MAX], yf[MAX], zf[MAX], want_f[MAX];
static mr_bf16_t xb[MAX], yb[MAX], zb[MAX];

/* Random values in both dtypes; x[t] is what a kernel of dtype t reads. */
static void fill(double spread, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    xb[i] = mr_bf16_from_f32((float)(uniform() * spread));
    yb[i] = mr_bf16_from_f32((float)uniform());
    xf[i] = mr_bf16_to_f32(xb[i]), yf[i] = mr_bf16_to_f32(yb[i]);
  }
}

static const void *x_of(mr_dtype_t t) { return t == MR_F32 ? (const void *)xf : xb; }
static const void *y_of(mr_dtype_t t) { return t == MR_F32 ? (const void *)yf : yb; }
static void *z_of(mr_dtype_t t) { return t == MR_F32 ? (void *)zf : zb; }
static double z_at(mr_dtype_t t, int64_t i) {
  return (double)(t == MR_F32 ? zf[i] : mr_bf16_to_f32(zb[i]));
}

/* Within tolerance of want, relative where want is large; bf16 rounds to 8 bits on top. */
static void expect(const char *what, const char *isa, mr_dtype_t t, double got, double want,
                   double tolerance) {
  double allowed = tolerance * fmax(1, fabs(want)) + (t == MR_BF16 ? fabs(want) / 250 + 1e-6 : 0);
  if (!(fabs(got - want) <= allowed))
    fail_msg("%s %s %s: got %.9g, want %.9g", what, isa, mr_dtype_name(t), got, want);
}

static const int64_t sizes[] = {1, 7, 15, 16, 17, 127, 128, 129, 384, 1000, 4099};
#define EACH_CASE(n)                                                            \
  for (mr_isa_t k = MR_ISA_PLAIN; k < MR_ISA_COUNT && mr_isa_available(k); k++) \
    for (int ti = 0; ti < 2; ti++)                                              \
      for (size_t si = 0; si < sizeof sizes / sizeof *sizes; si++)              \
        for (int64_t n = sizes[si], once = 1; once; once = 0)

static double gelu64(mr_gelu_t kind, double x) {
  if (kind == MR_GELU_ERF) return 0.5 * x * erfc(-x * M_SQRT1_2);
  return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

static double slope64(mr_gelu_t kind, double x) {
  double h = 1e-5;
  return (gelu64(kind, x + h) - gelu64(kind, x - h)) / (2 * h);
}

static void gelu_is_near(void **state) {
  EACH_CASE(n) {
    mr_dtype_t t = ti ? MR_BF16 : MR_F32;
    for (mr_gelu_t kind = MR_GELU_TANH; kind <= MR_GELU_ERF; kind++) {
      fill(9, n);
      mr__rows_of(k)->gelu_fwd(kind, t, x_of(t), z_of(t), 0, n);
      for (int64_t i = 0; i < n; i++)
        expect("gelu", mr_isa_name(k), t, z_at(t, i), gelu64(kind, (double)xf[i]), 4e-7);
      mr__rows_of(k)->gelu_bwd(kind, t, x_of(t), y_of(t), z_of(t), 0, n);
      for (int64_t i = 0; i < n; i++)
        expect("gelu slope", mr_isa_name(k), t, z_at(t, i),
               (double)yf[i] * slope64(kind, (double)xf[i]), 2e-6);
    }
  }
}

/* Powers of a finite x may overflow; the limits are 0 and x. */
static void gelu_of_any_number_has_its_limits(void **state) {
  static const float huge[] = {10.5f, 14, 20, 60, 1e4f, 1e12f, 1e20f, 1e30f, 1e38f, 3.3e38f};
  enum { N = sizeof huge / sizeof *huge };
  EACH_CASE(n) {
    mr_dtype_t t = ti ? MR_BF16 : MR_F32;
    for (mr_gelu_t kind = MR_GELU_TANH; kind <= MR_GELU_ERF; kind++) {
      for (int64_t i = 0; i < n; i++) {
        xb[i] = i % 31 == 30 ? mr_bf16_from_f32(NAN)
                             : mr_bf16_from_f32(i & 1 ? -huge[i / 2 % N] : huge[i / 2 % N]);
        xf[i] = mr_bf16_to_f32(xb[i]), yf[i] = 1, yb[i] = mr_bf16_from_f32(1);
      }
      for (int slope = 0; slope < 2; slope++) {
        if (slope)
          mr__rows_of(k)->gelu_bwd(kind, t, x_of(t), y_of(t), z_of(t), 0, n);
        else
          mr__rows_of(k)->gelu_fwd(kind, t, x_of(t), z_of(t), 0, n);
        for (int64_t i = 0; i < n; i++) {
          double x = (double)xf[i], z = z_at(t, i), want = x < 0 ? 0 : slope ? 1 : x;
          if (isnan(x) ? !isnan(z) : !(fabs(z - want) <= 1e-22 + 1e-6 * want))
            fail_msg("gelu %d %s of %g: %g", kind, slope ? "slope" : "value", x, z);
        }
      }
    }
  }
}

static void sums_over_no_rows_are_zeros(void **state) {
  float ds[40], db[40];
  void *scratch = malloc(mr_layer_norm_scratch(0, 40) + 1);
  memset(ds, 1, sizeof ds), memset(db, 1, sizeof db);
  mr_layer_norm_bwd(MR_F32, xf, yf, zf, zf, MR_F32, yf, zf, ds, db, scratch, 0, 40);
  for (int j = 0; j < 40; j++) assert_true(ds[j] == 0 && db[j] == 0);
  free(scratch);
}

static void layer_norm_is_near(void **state) {
  static float scale[4099], bias[4099], mean[3], rstd[3], ds[4099], db[4099];
  EACH_CASE(c) {
    mr_dtype_t t = ti ? MR_BF16 : MR_F32;
    fill(2, 3 * c);
    for (int64_t j = 0; j < c; j++) scale[j] = (float)uniform(), bias[j] = (float)uniform();
    for (int two = 0; two < 2 && c > 1; two++) {
      mr__rows_of(k)->layer_norm_fwd(t, x_of(t), scale, bias, 1e-3f, two, t, z_of(t), mean, rstd, 0,
                                     3, c);
      for (int64_t i = 0; i < 3 * c; i++) {
        double mu = 0, var = 0;
        const float *row = xf + i / c * c;
        for (int64_t j = 0; j < c; j++) mu += (double)row[j] / (double)c;
        for (int64_t j = 0; j < c; j++)
          var += ((double)row[j] - mu) * ((double)row[j] - mu) / (double)c;
        double rs = 1 / sqrt(var + 1e-3), h = ((double)xf[i] - mu) * rs;
        expect("layer norm", mr_isa_name(k), t, z_at(t, i),
               h * (double)scale[i % c] + (double)bias[i % c], 2e-5);
      }
    }
    mr__rows_of(k)->layer_norm_bwd(t, x_of(t), scale, mean, rstd, t, y_of(t), z_of(t), ds, db, 0, 3,
                                   c);
    for (int64_t i = 0; i < 3 * c && c > 1; i++) {
      const float *x = xf + i / c * c, *dy = yf + i / c * c;
      double mu = (double)mean[i / c], rs = (double)rstd[i / c], s1 = 0, s2 = 0;
      for (int64_t j = 0; j < c; j++) {
        double d = (double)dy[j] * (double)scale[j] / (double)c;
        s1 += d, s2 += d * ((double)x[j] - mu) * rs;
      }
      double h = ((double)xf[i] - mu) * rs;
      expect("layer norm dx", mr_isa_name(k), t, z_at(t, i),
             rs * ((double)yf[i] * (double)scale[i % c] - s1 - h * s2), 2e-5);
    }
    for (int64_t j = 0; j < c && c > 1; j++) {
      double s = 0, b = 0;
      for (int r = 0; r < 3; r++) {
        double d = (double)yf[r * c + j];
        b += d, s += d * ((double)xf[r * c + j] - (double)mean[r]) * (double)rstd[r];
      }
      expect("layer norm dscale", mr_isa_name(k), MR_F32, (double)ds[j], s, 1e-5);
      expect("layer norm dbias", mr_isa_name(k), MR_F32, (double)db[j], b, 1e-5);
    }
  }
}

static void sums_of_squares_are_near(void **state) {
  EACH_CASE(c) {
    if (ti) continue;
    fill(1, c);
    double sq = 0;
    for (int64_t j = 0; j < c; j++) sq += (double)xf[j] * (double)xf[j];
    expect("sum of squares", mr_isa_name(k), MR_F32, mr__rows_of(k)->sum_squares(xf, 0, c), sq,
           1e-12);
  }
}

/* The masks are a contract: the backward pass, a resumed run and another backend draw them anew. */
static void dropout_draws_the_same_masks_everywhere(void **state) {
  EACH_CASE(n) {
    mr_dtype_t t = ti ? MR_BF16 : MR_F32;
    fill(1, n);
    mr__rows_plain.dropout(MR_F32, xf, want_f, 0, n, 0.1f, 77, 3, 9);
    mr__rows_of(k)->dropout(t, x_of(t), z_of(t), 0, n, 0.1f, 77, 3, 9);
    for (int64_t from = 0, m; from < n; from += m) { /* in runs of any length, from anywhere */
      size_t size = mr_dtype_size(t);
      char part[1024 * sizeof(float)];
      m = n - from < 1 + from % 1001 ? n - from : 1 + from % 1001;
      mr__rows_of(k)->dropout(t, (char *)x_of(t) + size * (size_t)from, part, from, m, 0.1f, 77, 3,
                              9);
      assert_memory_equal(part, (char *)z_of(t) + size * (size_t)from, size * (size_t)m);
    }
    for (int64_t i = 0; i < n; i++)
      expect("dropout", mr_isa_name(k), t, z_at(t, i), (double)want_f[i], 1e-6);
  }
}

static void dropout_keeps_its_share(void **state) {
  for (int64_t i = 0; i < 65536; i++) xf[i] = 1;
  double first[2];
  for (uint32_t site = 0; site < 2; site++) {
    double sum = 0;
    mr_dropout(MR_F32, xf, zf, 65536, 0.25f, 12, site, 1, 0);
    for (int64_t i = 0; i < 65536; i++) sum += (double)zf[i];
    first[site] = sum;
    assert_true(fabs(sum / 65536 - 1) < 0.02);
  }
  assert_true(first[0] != first[1]);
}

/* Philox4x32-10 of counter and key zero: the known answer of Salmon et al.'s Random123. */
static void dropout_draws_philox(void **state) {
  for (int64_t i = 0; i < 8; i++) xf[i] = 1;
  const uint32_t word[] = {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u};
  for (int limit = 0x4000; limit < 0x10000; limit += 0x4000) {
    mr_dropout(MR_F32, xf, zf, 8, (float)limit / 65536, 0, 0, 0, 0);
    for (int i = 0; i < 8; i++)
      assert_int_equal(zf[i] > 0, (int)(word[i / 2] >> 16 * (i & 1) & 0xFFFF) >= limit);
  }
}

static void conversions_round_to_even(void **state) {
  EACH_CASE(n) {
    for (int64_t i = 0; i < n; i++) {
      uint32_t u = (uint32_t)(uniform() * 0x7fffffff) * 2u;
      memcpy(&xf[i], &u, sizeof u);
    }
    mr__rows_of(k)->convert(MR_F32, xf, MR_BF16, zb, 0, n);
    for (int64_t i = 0; i < n; i++) assert_int_equal(zb[i], mr_bf16_from_f32(xf[i]));
    mr__rows_of(k)->convert(MR_BF16, zb, MR_F32, zf, 0, n);
    for (int64_t i = 0; i < n; i++) {
      float back = mr_bf16_to_f32(zb[i]);
      assert_memory_equal(&zf[i], &back, sizeof back);
    }
  }
}

static void adamw_is_near(void **state) {
  static float m[4099], v[4099], m2[4099], v2[4099];
  mr_adamw_step_t s = {1e-3f, 0.9f, 0.999f, 1e-8f, 1e-2f, 0.271f, 0.003f, 0.5f};
  EACH_CASE(n) {
    fill(1, n);
    for (int64_t i = 0; i < n; i++) m[i] = (float)uniform(), v[i] = (float)fabs(uniform());
    mr__rows_of(k)->adamw(&s, xf, yf, m, v, zf, m2, v2, 0, n);
    for (int64_t i = 0; i < n; i++) {
      double g = 0.5 * (double)yf[i], mi = 0.9f * (double)m[i] + (1 - 0.9) * g;
      double vi = (double)0.999f * (double)v[i] + (1 - (double)0.999f) * g * g;
      double p = (double)xf[i] - 1e-3 * (mi / (double)0.271f / (sqrt(vi / (double)0.003f) + 1e-8) +
                                         1e-2 * (double)xf[i]);
      expect("adamw m", mr_isa_name(k), MR_F32, (double)m2[i], mi, 1e-6);
      expect("adamw v", mr_isa_name(k), MR_F32, (double)v2[i], vi, 1e-6);
      expect("adamw p", mr_isa_name(k), MR_F32, (double)zf[i], p, 1e-6);
    }
  }
}

static void elementary_functions_are_near(void **state) {
  for (double x = -86; x < 87.9; x += 0.00173) {
    double e = exp((double)(float)x), got = (double)vec_exp((float)x);
    assert_true(fabs(got - e) <= 2.5e-7 * e);
  }
  for (double x = -6; x < 8; x += 0.00037) {
    double want = erfc((double)(float)x);
    assert_true(fabs((double)vec_erfc((float)x) - want) <= (4e-7 + 1.5e-7 * x * x) * want);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gelu_is_near),
      cmocka_unit_test(gelu_of_any_number_has_its_limits),
      cmocka_unit_test(sums_over_no_rows_are_zeros),
      cmocka_unit_test(layer_norm_is_near),
      cmocka_unit_test(sums_of_squares_are_near),
      cmocka_unit_test(dropout_draws_the_same_masks_everywhere),
      cmocka_unit_test(dropout_keeps_its_share),
      cmocka_unit_test(dropout_draws_philox),
      cmocka_unit_test(conversions_round_to_even),
      cmocka_unit_test(adamw_is_near),
      cmocka_unit_test(elementary_functions_are_near),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
