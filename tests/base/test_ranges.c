#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ranges.h"

static void refuses(const char *text, mr_err_t code, const char *sentence) {
  mr_ranges_t r;
  mr_diag_t diag = {0};
  assert_int_equal(mr_ranges_parse(&r, text, &diag), code);
  if (!strstr(diag.text, sentence)) fail_msg("\"%s\" is not in: %s", sentence, diag.text);
}

static void a_text_that_is_no_list_is_refused(void **state) {
  refuses("x", MR_ERR_CONFIG, "\"x\": want numbers and ranges");
  refuses("1,-3", MR_ERR_CONFIG, "\"-3\"");
  refuses("5-3", MR_ERR_CONFIG, "\"5-3\"");
  refuses("1-", MR_ERR_CONFIG, "\"1-\"");
  refuses("1-2-3", MR_ERR_CONFIG, "\"1-2-3\"");
  refuses("99999999999999999999", MR_ERR_CONFIG, "\"9999");
  refuses("@/none/there", MR_ERR_IO, "/none/there");
}

static void empty_lists_hold_nothing(void **state) {
  static const char *const text[] = {NULL, "", ",", " , "};
  for (int i = 0; i < 4; i++) {
    mr_ranges_t r;
    assert_int_equal(mr_ranges_parse(&r, text[i], NULL), MR_OK);
    assert_false(mr_ranges_has(&r, 0));
    mr_ranges_fini(&r);
  }
}

/* Against one flag a number. */
static void random_lists_hold_what_they_say(void **state) {
  enum { TOP = 200 };
  srand(7);
  for (int round = 0; round < 300; round++) {
    char text[1024] = "";
    size_t at = 0;
    int in[TOP + 1] = {0};
    for (int k = rand() % 12; k > 0; k--) {
      int first = rand() % TOP, last = rand() & 1 ? first : first + rand() % (TOP - first);
      at += (size_t)snprintf(text + at, sizeof text - at, first == last ? "%s%d" : "%s%d-%d",
                             at ? "," : "", first, last);
      for (int x = first; x <= last; x++) in[x] = 1;
    }
    mr_ranges_t r;
    assert_int_equal(mr_ranges_parse(&r, text, NULL), MR_OK);
    for (int x = 0; x <= TOP; x++)
      if (mr_ranges_has(&r, (uint64_t)x) != in[x]) fail_msg("%s: %d", text, x);
    for (size_t i = 1; i < r.n; i++) assert_true(r.row[i].first > r.row[i - 1].last + 1);
    mr_ranges_fini(&r);
  }
}

static void the_largest_numbers_have_room(void **state) {
  mr_ranges_t r;
  assert_int_equal(mr_ranges_parse(&r, "18446744073709551615,5-18446744073709551615", NULL), MR_OK);
  assert_int_equal(r.n, 1);
  assert_true(mr_ranges_has(&r, UINT64_MAX) && mr_ranges_has(&r, 5) && !mr_ranges_has(&r, 4));
  mr_ranges_fini(&r);
}

static void a_file_holds_a_list_with_comments(void **state) {
  char path[] = "/tmp/mr-ranges-XXXXXX", at[64];
  FILE *f = fdopen(mkstemp(path), "w");
  fputs("# labels that are wrong\n3\n10-12 # three of them\n\n7, 8\n", f);
  fclose(f);
  snprintf(at, sizeof at, "@%s", path);
  mr_ranges_t r;
  assert_int_equal(mr_ranges_parse(&r, at, NULL), MR_OK);
  assert_int_equal(r.n, 3);
  for (uint64_t x = 0; x < 20; x++)
    assert_int_equal(mr_ranges_has(&r, x), x == 3 || x == 7 || x == 8 || (x >= 10 && x <= 12));
  mr_ranges_fini(&r);
  unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_text_that_is_no_list_is_refused),
      cmocka_unit_test(empty_lists_hold_nothing),
      cmocka_unit_test(random_lists_hold_what_they_say),
      cmocka_unit_test(the_largest_numbers_have_room),
      cmocka_unit_test(a_file_holds_a_list_with_comments),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
