/* CRC-32C against the vectors of RFC 3720 and bit by bit. */
#include "base/crc32c.h"

#include "tests/random.h"
#include "tests/vectors.h"

static uint32_t bit_by_bit(const uint8_t *data, size_t n) {
  uint32_t crc = ~0u;
  for (size_t i = 0; i < n * 8; i++) {
    uint32_t bit = (data[i / 8] >> i % 8 ^ crc) & 1;
    crc = crc >> 1 ^ (bit ? 0x82F63B78u : 0);
  }
  return ~crc;
}

static void vectors_of_the_standard(void **state) {
  uint8_t data[32];
  memset(data, 0, 32);
  assert_int_equal(mr_crc32c(data, 32), 0x8A9136AA);
  memset(data, 0xFF, 32);
  assert_int_equal(mr_crc32c(data, 32), 0x62A8AB43);
  for (int i = 0; i < 32; i++) data[i] = (uint8_t)i;
  assert_int_equal(mr_crc32c(data, 32), 0x46DD794E);
  assert_int_equal(mr_crc32c("123456789", 9), 0xE3069283);
  assert_int_equal(mr_crc32c("", 0), 0);
}

static void any_bytes_at_any_place(void **state) {
  static uint8_t data[1200];
  round_t r = round_first(3000);
  while (round_next(&r)) {
    size_t from = (size_t)draw(&r, 64), n = (size_t)draw(&r, one_in(&r, 2) ? 40 : 1100);
    for (size_t i = 0; i < n; i++) data[from + i] = (uint8_t)round_bits(&r);
    uint32_t want = bit_by_bit(data + from, n);
    round_check(&r, mr_crc32c(data + from, n) == want, "%zu bytes", n);
    round_check(&r, mr_crc32c_plain(data + from, n) == want, "%zu bytes, plain", n);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(vectors_of_the_standard),
      cmocka_unit_test(any_bytes_at_any_place),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
