/* The elementwise kernels and folds of every instruction set against the plain ones, over odd
   lengths and any bits: NaN, infinities and denormal numbers too. */
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

enum { ROWS = 9, STRIDE = 130, MOST = ROWS * STRIDE };
static const int64_t lengths[] = {1, 3, 15, 17, 31, 63, 65, 129, 255, 257, MOST};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static _Alignas(64) uint32_t a[MOST], b[MOST], got[MOST], want[MOST];

static uint64_t seed = 3;
static uint32_t next(void) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(seed >> 32);
}

static float from_bits(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

static uint32_t bits_of(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}

/* Half of them between -8 and 8, where functions do most of their work; the others any bits. */
static void fill(mr_dtype_t t, uint32_t *x) {
  for (int i = 0; i < MOST; i++) {
    uint32_t u = next();
    if (t != MR_I32 && u % 2) u = bits_of((float)(int32_t)next() * 0x1p-28f);
    if (t == MR_BF16)
      ((mr_bf16_t *)x)[i] = (mr_bf16_t)(u >> 16);
    else if (t == MR_F16)
      ((mr_f16_t *)x)[i] = mr_f16_from_f32(from_bits(u));
    else
      x[i] = u;
  }
  if (t == MR_I32) x[0] = 1u << 31, x[1] = ~0u;
}

static float at(mr_dtype_t t, const void *x, int64_t i) {
  if (t == MR_BF16) return mr_bf16_to_f32(((const mr_bf16_t *)x)[i]);
  if (t == MR_F16) return mr_f16_to_f32(((const mr_f16_t *)x)[i]);
  return ((const float *)x)[i];
}

static bool is_function(int lane) { return lane >= MR_LANE_EXP && lane <= MR_LANE_LOGISTIC; }
static bool is_test(int lane) { return lane >= MR_LANE_EQ; }

/* Functions are held against f64 by test_lanes.c: of two that are right the last bits may differ.
 */
static bool agree(int lane, mr_dtype_t t, int64_t i) {
  if (is_test(lane)) return ((uint8_t *)got)[i] == ((uint8_t *)want)[i];
  if (t == MR_I32) return got[i] == want[i];
  float x = at(t, got, i), y = at(t, want, i);
  if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
  if (!is_function(lane)) return bits_of(x) == bits_of(y);
  float step = fabsf(y) * (t == MR_BF16 ? 0x1p-7f : t == MR_F16 ? 0x1p-10f : 0x1p-20f);
  return x == y || fabsf(x - y) <= step + (t == MR_F16 ? 0x1p-24f : 0x1p-125f);
}

static void compare(int lane, mr_dtype_t t, mr_isa_t isa, int steps) {
  const mr__lanes_t *fast = mr__lanes_of(isa);
  mr_lane_fn *f = t == MR_I32 ? fast->i32[lane] : fast->at[lane];
  mr_lane_fn *plain = t == MR_I32 ? mr__lanes_plain.i32[lane] : mr__lanes_plain.at[lane];
  assert_true((f == NULL) == (plain == NULL));
  for (int k = 0; f && k < LENGTHS; k++) {
    fill(t, a), fill(t, b);
    memset(got, 0xEE, sizeof got), memset(want, 0xEE, sizeof want);
    f(t, a, steps & 1, b, steps >> 1, got, lengths[k]);
    plain(t, a, steps & 1, b, steps >> 1, want, lengths[k]);
    for (int64_t i = 0; i < lengths[k]; i++)
      if (!agree(lane, t, i))
        fail_msg("op %d of %s, %s: element %d of %d is %g, plain %g", lane, mr_dtype_name(t),
                 mr_isa_name(isa), (int)i, (int)lengths[k], (double)at(t, got, i),
                 (double)at(t, want, i));
    size_t size = is_test(lane) ? 1 : mr_dtype_size(t), end = size * (size_t)lengths[k];
    assert_memory_equal((char *)got + end, (char *)want + end, sizeof got - end);
  }
}

#define EACH_FAST(isa)                                             \
  for (mr_isa_t isa = MR_ISA_PLAIN + 1; isa < MR_ISA_COUNT; isa++) \
    if (mr_isa_available(isa))

static void every_elementwise_kernel_gives_what_the_plain_one_gives(void **state) {
  static const mr_dtype_t dtype[] = {MR_F32, MR_BF16, MR_F16, MR_I32};
  EACH_FAST(isa)
  for (int lane = MR_LANE_NONE + 1; lane < MR_LANE_N; lane++)
    for (int t = 0; t < 4; t++)
      for (int steps = 0; steps < 4; steps++) compare(lane, dtype[t], isa, steps);
}

/* Only NaN is like NaN. */
static void expect_same(const float *x, const float *y, int n, const char *what, mr_isa_t isa) {
  for (int i = 0; i < n; i++)
    if (isnan(x[i]) ? !isnan(y[i]) : bits_of(x[i]) != bits_of(y[i]))
      fail_msg("%s, %s: lane %d is %g, plain %g", what, mr_isa_name(isa), i, (double)x[i],
               (double)y[i]);
}

static void fold(const mr__lanes_t *l, mr_dtype_t t, int64_t n, bool sum, float *lane) {
  for (int i = 0; i < MR_FOLD_LANES; i++) lane[i] = sum ? 0 : -INFINITY;
  (sum ? l->sum : l->max)(t, a, lane, n);
  lane[MR_FOLD_LANES] = (sum ? l->sum_join : l->max_join)(lane);
}

static void every_fold_of_a_row_gives_what_the_plain_one_gives(void **state) {
  float x[MR_FOLD_LANES + 1], y[MR_FOLD_LANES + 1];
  EACH_FAST(isa)
  for (int k = 0; k < LENGTHS * 8; k++) {
    mr_dtype_t t = k & 1 ? MR_BF16 : k & 4 ? MR_F16 : MR_F32;
    fill(t, a);
    fold(mr__lanes_of(isa), t, lengths[k / 8], k & 2, x);
    fold(&mr__lanes_plain, t, lengths[k / 8], k & 2, y);
    expect_same(x, y, MR_FOLD_LANES + 1, k & 2 ? "sum" : "max", isa);
  }
}

static void every_fold_of_columns_gives_what_the_plain_one_gives(void **state) {
  static const int64_t columns[] = {1, 7, 63, 65, STRIDE};
  float x[STRIDE], y[STRIDE];
  EACH_FAST(isa)
  for (int k = 0; k < 5 * 8; k++) {
    mr_dtype_t t = k & 1 ? MR_BF16 : k & 4 ? MR_F16 : MR_F32;
    const mr__lanes_t *l = mr__lanes_of(isa), *plain = &mr__lanes_plain;
    fill(t, a);
    for (int i = 0; i < STRIDE; i++) x[i] = y[i] = (float)i;
    (k & 2 ? l->sum_rows : l->max_rows)(t, a, STRIDE, ROWS, x, columns[k / 8]);
    (k & 2 ? plain->sum_rows : plain->max_rows)(t, a, STRIDE, ROWS, y, columns[k / 8]);
    expect_same(x, y, STRIDE, k & 2 ? "sum of columns" : "max of columns", isa);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_elementwise_kernel_gives_what_the_plain_one_gives),
      cmocka_unit_test(every_fold_of_a_row_gives_what_the_plain_one_gives),
      cmocka_unit_test(every_fold_of_columns_gives_what_the_plain_one_gives),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
