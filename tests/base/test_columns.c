/* Lines that fit a terminal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "base/text.h"

static void wraps(const char *text, int columns, int indent, const char *want) {
  char *got = NULL;
  size_t n;
  FILE *f = open_memstream(&got, &n);
  mr_put_wrapped(f, text, columns, indent);
  fclose(f);
  assert_string_equal(got, want);
  free(got);
}

static void lines_break_at_spaces_and_none_is_too_long(void **state) {
  wraps("", 20, 2, "\n");
  wraps("one two three four five six", 20, 2, "one two three four\n  five six\n");
  wraps("twelve letters and more", 23, 2, "twelve letters and more\n");
  wraps("0123456789abcdefghij0123456789", 20, 2, "0123456789abcdefghij\n  0123456789\n");
  wraps("one 0123456789abcdefghij0123456789", 20, 2, "one\n  0123456789abcdefgh\n  ij0123456789\n");
}

static void without_a_terminal_a_line_stays_whole(void **state) {
  wraps("one two three four five six seven eight nine ten", 0, 2,
        "one two three four five six seven eight nine ten\n");
}

static void a_character_of_several_bytes_is_one_column(void **state) {
  wraps(
      "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4 "
      "\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6",
      20, 2,
      "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4 "
      "\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lines_break_at_spaces_and_none_is_too_long),
      cmocka_unit_test(without_a_terminal_a_line_stays_whole),
      cmocka_unit_test(a_character_of_several_bytes_is_one_column),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
