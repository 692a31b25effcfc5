/* Numbers under a locale with a decimal comma. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "tests/comma.h"

static void the_point_stays_a_point(void **state) {
  char text[64], *end;
  float f;
  if (!comma_locale()) skip();
  assert_true(mr_strtod("0.25x", &end) == 0.25 && *end == 'x');
  assert_int_equal(mr_snprintf(text, sizeof text, "%.2f %g", 0.5, 1e-3), 10);
  assert_string_equal(text, "0.50 0.001");
  assert_int_equal(mr_sscanf("0.5", "%f", &f), 1);
  assert_true(f == 0.5f);
  mr_diag_t diag = {0};
  mr_fail(&diag, MR_ERR_CONFIG, "want %g", 0.5);
  assert_string_equal(diag.text, "want 0.5");
  size_t bytes;
  assert_int_equal(mr_bytes_parse("limit", "1.5KiB", &bytes, NULL), MR_OK);
  assert_int_equal(bytes, 1536);
  snprintf(text, sizeof text, "%g", 0.5); /* the host's own locale is as it was */
  assert_string_equal(text, "0,5");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_point_stays_a_point)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
