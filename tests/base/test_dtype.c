/* Conversions of narrow floats, over all codes and all ties, as NumPy and ml_dtypes make them. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/dtype.h"
#include "tests/crc.h"

enum { CODES = 65536, TIES = 3 << 20 };

static float float_of(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

static uint32_t bits_of(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return isnan(f) ? 0x7FC00000u : u;
}

/* The ties of f16 and the f32 numbers beside each, which f16.py tells about. */
static float tie(uint32_t i) { return float_of((i / 3 << 12) + i % 3 - 1); }

static mr_f16_t f16_plain(mr_f16_t h) { return (h & 0x7FFF) > 0x7C00 ? 0x7E00 : h; }

static void every_f16_is_widened_as_numpy_does(void **state) {
  uint32_t crc = 0;
  for (uint32_t h = 0; h < CODES; h++) {
    uint32_t u = bits_of(mr_f16_to_f32((mr_f16_t)h));
    crc = crc32_of(crc, &u, sizeof u);
  }
  assert_crc("f16.txt", "widen", crc);
}

static void every_tie_is_rounded_to_f16_as_numpy_does(void **state) {
  uint32_t crc = 0;
  for (uint32_t i = 0; i < TIES; i++) {
    mr_f16_t h = f16_plain(mr_f16_from_f32(tie(i)));
    crc = crc32_of(crc, &h, sizeof h);
  }
  assert_crc("f16.txt", "narrow", crc);
}

/* A double beside a tie is not rounded to it first. */
static void an_f64_is_rounded_to_f16_once(void **state) {
  uint32_t crc = 0;
  for (uint64_t turned = 0; turned < 2; turned++)
    for (uint32_t i = 0; i < TIES; i++) {
      double v = (double)tie(i);
      uint64_t u;
      memcpy(&u, &v, sizeof u);
      u ^= turned;
      memcpy(&v, &u, sizeof v);
      mr_f16_t h = f16_plain(mr_f16_from_f64(v));
      crc = crc32_of(crc, &h, sizeof h);
    }
  assert_crc("f16.txt", "narrow_f64", crc);
}

static void a_nan_becomes_quiet_and_keeps_its_sign(void **state) {
  uint32_t u;
  float f = mr_f16_to_f32(0xFC01);
  memcpy(&u, &f, sizeof u);
  assert_int_equal(u, 0xFFC02000u);
  assert_int_equal(mr_f16_from_f32(float_of(0xFF800001u)), 0xFE00);
  assert_int_equal(mr_f16_from_f32(float_of(0x7FC02000u)), 0x7E01);
}

/* ---- f8 ---- */
typedef struct f8 {
  mr_dtype_t t;
  const char *name;
  uint8_t nan, largest;
} f8_t;

static const f8_t f8s[] = {{MR_F8_E4M3FN, "float8_e4m3fn", 0x7F, 0x7E},
                           {MR_F8_E5M2, "float8_e5m2", 0x7E, 0x7B}};

static uint32_t add_f8(uint32_t crc, const f8_t *k, float f) {
  uint8_t code = mr_f8_from_f32(k->t, f);
  if (isnan(mr_f8_to_f32(k->t, code))) code = k->nan;
  return crc32_of(crc, &code, 1);
}

static void expect_f8(const f8_t *k, const char *from, uint32_t crc) {
  char name[64];
  snprintf(name, sizeof name, "%s.%s", k->name, from);
  assert_crc("f8.txt", name, crc);
}

static void every_f8_is_widened_as_ml_dtypes_does(void **state) {
  for (int d = 0; d < 2; d++) {
    uint32_t crc = 0;
    for (uint32_t code = 0; code < 256; code++) {
      uint32_t u = bits_of(mr_f8_to_f32(f8s[d].t, (uint8_t)code));
      crc = crc32_of(crc, &u, sizeof u);
    }
    expect_f8(&f8s[d], "widen", crc);
  }
}

static void every_bf16_and_f16_becomes_the_f8_of_ml_dtypes(void **state) {
  for (int d = 0; d < 2; d++) {
    uint32_t of_bf16 = 0, of_f16 = 0;
    for (uint32_t h = 0; h < CODES; h++) {
      of_bf16 = add_f8(of_bf16, &f8s[d], mr_bf16_to_f32((mr_bf16_t)h));
      of_f16 = add_f8(of_f16, &f8s[d], mr_f16_to_f32((mr_f16_t)h));
    }
    expect_f8(&f8s[d], "bf16", of_bf16);
    expect_f8(&f8s[d], "f16", of_f16);
  }
}

static void every_tie_is_rounded_to_f8_as_ml_dtypes_does(void **state) {
  for (int d = 0; d < 2; d++) {
    uint32_t crc = 0;
    for (uint32_t i = 0; i < TIES; i++) crc = add_f8(crc, &f8s[d], tie(i));
    expect_f8(&f8s[d], "f32", crc);
  }
}

/* 448 is the largest e4m3fn: half a step beyond it still rounds to it, anything more is NaN. */
static void values_beyond_the_range_of_f8_become_infinity_or_nan(void **state) {
  for (int d = 0; d < 2; d++) {
    float step = d ? 0x1p13f : 0x1p5f, most = mr_f8_to_f32(f8s[d].t, f8s[d].largest);
    assert_true(most == (d ? 57344.0f : 448.0f));
    assert_int_equal(mr_f8_from_f32(f8s[d].t, -most - step / 4), 0x80 | f8s[d].largest);
    assert_int_equal(mr_f8_from_f32(f8s[d].t, most + step / 2), d ? 0x7C : 0x7E);
    assert_int_equal(mr_f8_from_f32(f8s[d].t, most + step), d ? 0x7C : 0x7F);
    assert_int_equal(mr_f8_from_f32(f8s[d].t, -INFINITY), d ? 0xFC : 0xFF);
    assert_int_equal(mr_f8_from_f32(f8s[d].t, -0.0f), 0x80);
    assert_int_equal(mr_f8_from_f32(f8s[d].t, NAN) & 0x7F, f8s[d].nan);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_f16_is_widened_as_numpy_does),
      cmocka_unit_test(every_tie_is_rounded_to_f16_as_numpy_does),
      cmocka_unit_test(an_f64_is_rounded_to_f16_once),
      cmocka_unit_test(a_nan_becomes_quiet_and_keeps_its_sign),
      cmocka_unit_test(every_f8_is_widened_as_ml_dtypes_does),
      cmocka_unit_test(every_bf16_and_f16_becomes_the_f8_of_ml_dtypes),
      cmocka_unit_test(every_tie_is_rounded_to_f8_as_ml_dtypes_does),
      cmocka_unit_test(values_beyond_the_range_of_f8_become_infinity_or_nan),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
