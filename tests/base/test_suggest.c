/* "Did you mean": distances, and what is too far to be meant. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <string.h>

#include "base/suggest.h"

static void distances_count_edits(void **state) {
  assert_int_equal(mr_edit_distance("", ""), 0);
  assert_int_equal(mr_edit_distance("batch", "batch"), 0);
  assert_int_equal(mr_edit_distance("", "abc"), 3);
  assert_int_equal(mr_edit_distance("bathc", "batch"), 1); /* neighbours swapped */
  assert_int_equal(mr_edit_distance("kitten", "sitting"), 3);
  assert_int_equal(mr_edit_distance("flip", "flips"), mr_edit_distance("flips", "flip"));
}

static void words_beyond_the_table_are_only_as_far_as_they_are_long(void **state) {
  char a[101];
  memset(a, 'a', 100), a[100] = 0;
  assert_int_equal(mr_edit_distance(a, "b"), 100);
  a[63] = 0;
  assert_int_equal(mr_edit_distance(a, a), 0);
}

static void the_nearest_word_is_meant_if_it_is_near(void **state) {
  static const char *const word[] = {"normalize", "batch", "flip", "tee"};
  static const char *const cases[][2] = {{"normalise", "; did you mean \"normalize\"?"},
                                         {"bacth", "; did you mean \"batch\"?"},
                                         {"te", "; did you mean \"tee\"?"},
                                         {"zebra", ""},
                                         {"", ""}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[64];
    mr_suggest_t s = {.word = cases[i][0]};
    for (int k = 0; k < 4; k++) mr_suggest_offer(&s, word[k]);
    assert_string_equal(mr_suggest_text(&s, text, sizeof text), cases[i][1]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(distances_count_edits),
      cmocka_unit_test(words_beyond_the_table_are_only_as_far_as_they_are_long),
      cmocka_unit_test(the_nearest_word_is_meant_if_it_is_near),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
