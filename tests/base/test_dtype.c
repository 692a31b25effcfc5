/* Conversions of narrow floats, over all codes and all ties, as NumPy makes them. */
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_f16_is_widened_as_numpy_does),
      cmocka_unit_test(every_tie_is_rounded_to_f16_as_numpy_does),
      cmocka_unit_test(an_f64_is_rounded_to_f16_once),
      cmocka_unit_test(a_nan_becomes_quiet_and_keeps_its_sign),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
