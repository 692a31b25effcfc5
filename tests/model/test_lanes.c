/* The elementwise kernels of each instruction set, against f64. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <string.h>

#include "model/backends/cpu/lanes.h"

static const mr_isa_t isas[] = {MR_ISA_PLAIN, MR_ISA_AVX2, MR_ISA_AVX512};

static bool has(mr_isa_t isa) {
  return isa == MR_ISA_PLAIN || (isa == MR_ISA_AVX2 && __builtin_cpu_supports("avx2")) ||
         (isa == MR_ISA_AVX512 && __builtin_cpu_supports("avx512bw"));
}

static double logistic(double x) { return 1 / (1 + exp(-x)); }

static const struct function {
  mr_lane_t lane;
  const char *name;
  double (*f)(double);
  double ulps;  /* of the result, which may be denormal */
  double floor; /* an error that is always let pass: where 1 + e^-x overflows */
} functions[] = {
    {MR_LANE_EXP, "exp", exp, 2, 0},
    {MR_LANE_LOG, "log", log, 2, 0},
    {MR_LANE_SIN, "sin", sin, 3, 0},
    {MR_LANE_COS, "cos", cos, 3, 0},
    {MR_LANE_TANH, "tanh", tanh, 3, 0},
    {MR_LANE_ERF, "erf", erf, 6, 0},
    {MR_LANE_LOGISTIC, "logistic", logistic, 4, 0x1p-126},
};

static float from_bits(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

static void check(const struct function *fn, mr_isa_t isa, const float *x, int n) {
  float y[256];
  mr__lanes_of(isa)->at[fn->lane](MR_F32, x, 1, NULL, 1, y, n);
  for (int i = 0; i < n; i++) {
    double want = fn->f((double)x[i]);
    float near = (float)want, next = nextafterf(fabsf(near), INFINITY);
    if (isnan(want) ? isnan(y[i]) : y[i] == near) continue;
    double ulp = (double)(next - fabsf(near));
    if (!isinf(near) && fabs((double)y[i] - want) <= fn->ulps * ulp + fn->floor) continue;
    fail_msg("%s(%a) by %d is %a, want %a", fn->name, (double)x[i], (int)isa, (double)y[i], want);
  }
}

/* Every 4099th float, which meets each exponent 2000 times: denormals, infinities, NaN too. */
static void functions_agree_with_f64_over_all_floats(void **state) {
  for (size_t k = 0; k < sizeof functions / sizeof *functions; k++)
    for (int s = 0; s < 3; s++) {
      float x[256];
      int n = 0;
      if (!has(isas[s])) continue;
      for (uint64_t u = 0; u < 1ull << 32; u += 4099) {
        x[n++] = from_bits((uint32_t)u);
        if (n == 256) check(&functions[k], isas[s], x, n), n = 0;
      }
      check(&functions[k], isas[s], x, n);
    }
}

static void special_arguments_give_what_the_c_library_gives(void **state) {
  const float x[] = {0.0f,    -0.0f,   INFINITY, -INFINITY, NAN,     88.7f,   88.8f, -87.4f,
                     -103.9f, -104.5f, 1e-45f,   -1e-45f,   8192.0f, 8193.0f, 1e30f, 1.0f};
  for (size_t k = 0; k < sizeof functions / sizeof *functions; k++)
    for (int s = 0; s < 3; s++)
      if (has(isas[s])) check(&functions[k], isas[s], x, (int)(sizeof x / sizeof *x));
}

/* Elements do not know where they stand, how long the run is, or whether it is written in place. */
static void an_elements_result_depends_on_it_alone(void **state) {
  enum { N = 333 };
  float a[N], b[N], whole[N], one, place[N];
  uint32_t r = 7;
  for (int i = 0; i < N; i++) {
    r = r * 1664525u + 1013904223u;
    a[i] = from_bits(r) > -1e30f && from_bits(r) < 1e30f ? from_bits(r) : (float)i;
    b[i] = (float)(int32_t)(r * 77u) / 65536.0f;
  }
  for (int s = 0; s < 3; s++)
    for (int k = MR_LANE_NONE + 1; k < MR_LANE_EQ && has(isas[s]); k++) {
      mr_lane_fn *f = mr__lanes_of(isas[s])->at[k];
      f(MR_F32, a, 1, b, 1, whole, N);
      memcpy(place, a, sizeof a);
      f(MR_F32, place, 1, b, 1, place, N);
      assert_memory_equal(place, whole, sizeof whole);
      for (int i = 0; i < N; i++) {
        f(MR_F32, a + i, 0, b + i, 0, &one, 1);
        assert_memory_equal(&one, &whole[i], sizeof one);
      }
      f(MR_F32, a, 0, b, 1, whole, N);
      for (int i = 0; i < N; i++) {
        f(MR_F32, a, 1, b + i, 1, &one, 1);
        assert_memory_equal(&one, &whole[i], sizeof one);
      }
    }
}

static void bf16_is_computed_in_f32_and_rounded_once(void **state) {
  mr_bf16_t a[100], b[100], y[100];
  for (int i = 0; i < 100; i++) {
    a[i] = mr_bf16_from_f32((float)i * 0.37f - 9);
    b[i] = mr_bf16_from_f32(3.3f - (float)i * 0.11f);
  }
  for (int s = 0; s < 3; s++) {
    if (!has(isas[s])) continue;
    mr__lanes_of(isas[s])->at[MR_LANE_MUL](MR_BF16, a, 1, b, 1, y, 100);
    for (int i = 0; i < 100; i++)
      assert_int_equal(y[i], mr_bf16_from_f32(mr_bf16_to_f32(a[i]) * mr_bf16_to_f32(b[i])));
  }
}

/* Any cut at a multiple of the lanes gives the sum of the whole. */
static void a_row_folded_in_pieces_gives_the_bits_of_the_whole(void **state) {
  enum { N = 1000 };
  float x[N], whole[MR_FOLD_LANES], parts[MR_FOLD_LANES];
  for (int i = 0; i < N; i++) x[i] = sinf((float)i) * 1e3f;
  for (int s = 0; s < 3; s++) {
    if (!has(isas[s])) continue;
    const mr__lanes_t *l = mr__lanes_of(isas[s]);
    double sum = 0;
    for (int i = 0; i < N; i++) sum += (double)x[i];
    for (int from = 64; from < N; from += 192) {
      memset(whole, 0, sizeof whole);
      memset(parts, 0, sizeof parts);
      l->sum(MR_F32, x, whole, N);
      l->sum(MR_F32, x, parts, from);
      l->sum(MR_F32, x + from, parts, N - from);
      assert_memory_equal(whole, parts, sizeof whole);
    }
    assert_true(fabs((double)l->sum_join(whole) - sum) < 0.02);
    for (int i = 0; i < MR_FOLD_LANES; i++) whole[i] = -INFINITY;
    x[N - 1] = NAN;
    l->max(MR_F32, x, whole, N - 1);
    assert_true(l->max_join(whole) > 999 && l->max_join(whole) <= 1000);
    l->max(MR_F32, x + N - 1, whole, 1);
    assert_true(isnan(l->max_join(whole)));
    x[N - 1] = 0;
  }
}

/* Column by column, as a loop over the rows does it. */
static void rows_are_folded_one_after_the_other(void **state) {
  enum { ROWS = 9, STRIDE = 203 };
  float x[ROWS * STRIDE], sum[STRIDE], most[STRIDE];
  mr_bf16_t narrow[ROWS * STRIDE];
  for (int i = 0; i < ROWS * STRIDE; i++) narrow[i] = mr_bf16_from_f32(sinf((float)i) * 1e3f);
  for (int i = 0; i < ROWS * STRIDE; i++) x[i] = mr_bf16_to_f32(narrow[i]);
  x[3] = NAN, narrow[3] = mr_bf16_from_f32(NAN);
  for (int at = 0; at < 2 * 2 * 3 * 4; at++) {
    static const int columns[] = {1, 63, 128, STRIDE};
    int n = columns[at % 4], t = at / 12 % 2, rows = at / 24 ? ROWS : 2;
    const mr__lanes_t *l =
        has(isas[at / 4 % 3]) ? mr__lanes_of(isas[at / 4 % 3]) : &mr__lanes_plain;
    for (int j = 0; j < n; j++) sum[j] = 1, most[j] = -INFINITY;
    l->sum_rows(t ? MR_BF16 : MR_F32, t ? (void *)narrow : x, STRIDE, rows, sum, n);
    l->max_rows(t ? MR_BF16 : MR_F32, t ? (void *)narrow : x, STRIDE, rows, most, n);
    for (int j = 0; j < n; j++) {
      float want = 1, larger = -INFINITY;
      for (int r = 0; r < rows; r++) want += x[r * STRIDE + j];
      for (int r = 0; r < rows; r++) larger = fmaxf(larger, x[r * STRIDE + j]);
      assert_true(j == 3 ? isnan(sum[j]) && isnan(most[j]) : sum[j] == want && most[j] == larger);
    }
  }
}

/* Arrays and single values for each of the three operands, elements of each size. */
static void selecting_is_the_same_on_every_instruction_set(void **state) {
  enum { MOST = 77 };
  static _Alignas(64) uint8_t which[MOST], a[8 * MOST], b[8 * MOST], got[8 * MOST], want[8 * MOST];
  for (int i = 0; i < MOST; i++) which[i] = i * 7 % 3 == 1;
  for (int i = 0; i < 8 * MOST; i++) a[i] = (uint8_t)(i * 37), b[i] = (uint8_t)(i * 101 + 9);
  for (int k = 0; k < 3; k++) {
    if (!has(isas[k])) continue;
    for (int at = 0; at < 4 * 8 * 2; at++) {
      int size = 1 << at / 16, step = at & 1, as = at >> 1 & 1, bs = at >> 2 & 1;
      int64_t n = at & 8 ? MOST : 1;
      for (int64_t i = 0; i < n; i++)
        memcpy(want + i * size, which[i * step] ? b + i * bs * size : a + i * as * size,
               (size_t)size);
      mr__lanes_of(isas[k])->select(which, step, a, as, b, bs, got, size, n);
      assert_memory_equal(got, want, (size_t)(n * size));
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(functions_agree_with_f64_over_all_floats),
      cmocka_unit_test(special_arguments_give_what_the_c_library_gives),
      cmocka_unit_test(an_elements_result_depends_on_it_alone),
      cmocka_unit_test(bf16_is_computed_in_f32_and_rounded_once),
      cmocka_unit_test(a_row_folded_in_pieces_gives_the_bits_of_the_whole),
      cmocka_unit_test(rows_are_folded_one_after_the_other),
      cmocka_unit_test(selecting_is_the_same_on_every_instruction_set),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
