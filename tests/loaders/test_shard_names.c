/* Names with braces, against braceexpand 0.1.7, which WebDataset uses; what is no range or list is
   refused. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdio.h>
#include <string.h>

#include "loaders/shards/shard_names.h"

static void names_are_those_of_braceexpand(void **state) {
  static const char *const cases[][2] = {
      {"{a..e}", "a b c d e"},
      {"{e..a}", "e d c b a"},
      {"{A..C}x", "Ax Bx Cx"},
      {"{0..6..3}", "0 3 6"},
      {"{6..0..3}", "6 3 0"},
      {"{00..06..3}", "00 03 06"},
      {"{0..7..3}", "0 3 6"},
      {"{a..i..2}", "a c e g i"},
      {"{8..12}", "8 9 10 11 12"},
      {"{08..12}", "08 09 10 11 12"},
      {"{a,b}{1..2}", "a1 a2 b1 b2"},
      {"{1..3..10}", "1"},
      {"x{000..002}.tar", "x000.tar x001.tar x002.tar"},
      {"{5..5}", "5"},
      {"{z..x..2}", "z x"},
      {"{9..1..4}", "9 5 1"},
      {"a-{train,extra}::b", "a-train a-extra b"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    mr_shard_names_t names;
    mr_diag_t diag = {0};
    char all[200] = "";
    if (mr_shard_names_expand(cases[i][0], &names, &diag) < 0) fail_msg("%s", diag.text);
    for (int k = 0; k < names.n; k++)
      snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", k ? " " : "", names.at[k]);
    if (strcmp(all, cases[i][1])) fail_msg("%s: %s, want %s", cases[i][0], all, cases[i][1]);
    mr_shard_names_fini(&names);
  }
}

static void a_name_that_is_no_range_or_list_is_refused(void **state) {
  static const char *const cases[] = {
      "{",        "a}",           "{}",      "{a}",           "{1..}",
      "{..2}",    "{a..2}",       "{a..C}",  "{ab..cd}",      "{1..9..0}",
      "{1..9..}", "{1..9..2..3}", "{{1..2}", "{1..99999999}", ""};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    mr_shard_names_t names;
    mr_diag_t diag = {0};
    mr_err_t e = mr_shard_names_expand(cases[i], &names, &diag);
    if (e != MR_ERR_CONFIG || !*diag.text) fail_msg("%s: %d %s", cases[i], e, diag.text);
    mr_shard_names_fini(&names);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(names_are_those_of_braceexpand),
                                     cmocka_unit_test(a_name_that_is_no_range_or_list_is_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
