/* Sizes of memory as text. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <string.h>

#include "base/text.h"

static void sizes_are_read_with_their_units(void **state) {
  const struct {
    const char *text;
    size_t bytes;
  } of[] = {{"2GiB", 2147483648u}, {"1.5GB", 1500000000u}, {"64k", 65536},
            {"3 MiB", 3145728},    {"1048576", 1048576},   {"7B", 7},
            {"1KB", 1000},         {"0.5M", 524288},       {"1TiB", 1ull << 40}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    size_t got = 0;
    assert_int_equal(mr_bytes_parse("fit", of[i].text, &got, NULL), MR_OK);
    assert_int_equal(got, of[i].bytes);
  }
}

static void other_texts_are_refused(void **state) {
  const char *bad[] = {"",    "GiB",  "2 apples", "-1GiB", "0",    "nan",
                       "inf", "1e40", "2GiBB",    "2Gi",   "1 K B"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    size_t got = 7;
    mr_diag_t diag = {0};
    assert_int_equal(mr_bytes_parse("fit", bad[i], &got, &diag), MR_ERR_CONFIG);
    assert_int_equal(got, 7);
    assert_non_null(strstr(diag.text, "2GiB"));
  }
}

static void sizes_are_written_with_three_digits_or_so(void **state) {
  char text[24];
  assert_string_equal(mr_bytes_text(512, text), "512 bytes");
  assert_string_equal(mr_bytes_text(1536, text), "1.50 KiB");
  assert_string_equal(mr_bytes_text((size_t)820 << 20, text), "820.0 MiB");
  assert_string_equal(mr_bytes_text((size_t)3 << 30, text), "3.00 GiB");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sizes_are_read_with_their_units),
      cmocka_unit_test(other_texts_are_refused),
      cmocka_unit_test(sizes_are_written_with_three_digits_or_so),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
