/* Settings: what is taken, and what is said about the rest. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <stdbool.h>
#include <string.h>

#include "pipeline/opt.h"

typedef struct {
  int64_t whole;
  double number, range[2], vec[3];
  bool yes;
  const char *text;
  int choice;
} box_t;

#define ROW(n, t, f, l, h) \
  { .name = n, .type = t, .offset = offsetof(box_t, f), .lo = l, .hi = h, .choices = "hwc|chw" }

static const mr_opt_t whole = ROW("size", MR_OPT_INT, whole, 1, 100);
static const mr_opt_t number = ROW("p", MR_OPT_F64, number, 0, 1);
static const mr_opt_t range = ROW("scale", MR_OPT_RANGE, range, 0, 2);
static const mr_opt_t vec = ROW("std", MR_OPT_VEC3, vec, 0, 1);
static const mr_opt_t yes = ROW("drop", MR_OPT_BOOL, yes, 0, 0);
static const mr_opt_t text = ROW("path", MR_OPT_STR, text, 0, 0);
static const mr_opt_t choice = ROW("layout", MR_OPT_ENUM, choice, 0, 0);

static void right_texts_are_taken(void **state) {
  box_t b = {0};
  assert_int_equal(mr_opt_set(&whole, &b, "s", "100", NULL), MR_OK);
  assert_int_equal(b.whole, 100);
  assert_int_equal(mr_opt_set(&number, &b, "s", "2.5e-1", NULL), MR_OK);
  assert_true(b.number == 0.25);
  assert_int_equal(mr_opt_set(&range, &b, "s", "0.9:1.0", NULL), MR_OK);
  assert_true(b.range[0] == 0.9 && b.range[1] == 1);
  assert_int_equal(mr_opt_set(&vec, &b, "s", "0.5,.25,1", NULL), MR_OK);
  assert_true(b.vec[0] == 0.5 && b.vec[1] == 0.25 && b.vec[2] == 1);
  assert_int_equal(mr_opt_set(&yes, &b, "s", "on", NULL), MR_OK);
  assert_true(b.yes);
  assert_int_equal(mr_opt_set(&choice, &b, "s", "chw", NULL), MR_OK);
  assert_int_equal(b.choice, 1);
  assert_int_equal(mr_opt_set(&text, &b, "s", "a b", NULL), MR_OK);
  assert_string_equal(b.text, "a b");
}

/* -1 is a word for the usual value, not the border of a range. */
static void default_outside_of_its_range_is_taken_alone(void **state) {
  static const char *const refused[] = {"-0.5",       "-1e-300", "-0.9999999",
                                        "-1.0000001", "-2",      "1.01"};
  mr_opt_t usual = number;
  mr_diag_t diag = {0};
  box_t b = {0};
  usual.def = "-1";
  assert_int_equal(mr_opt_set(&usual, &b, "s", "-1.0", NULL), MR_OK);
  assert_true(b.number == -1);
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    assert_int_equal(mr_opt_set(&usual, &b, "s", refused[i], &diag), MR_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "want a number in [0,1], or -1"));
    assert_true(b.number == -1);
  }
}

static void wrong_texts_are_refused_and_change_nothing(void **state) {
  static const struct {
    const mr_opt_t *opt;
    const char *text;
  } bad[] = {{&whole, "0"},
             {&whole, "101"},
             {&whole, ""},
             {&whole, "5x"},
             {&whole, " 5"},
             {&whole, "5.0"},
             {&whole, "99999999999999999999"},
             {&number, "nan"},
             {&number, "inf"},
             {&number, "1.01"},
             {&number, "0.5 "},
             {&number, ""},
             {&number, "1e999"},
             {&range, "1"},
             {&range, "1:0.5"},
             {&range, "0:3"},
             {&range, "0:1:2"},
             {&vec, "1,1"},
             {&vec, "1,1,1,1"},
             {&vec, "1,1,x"},
             {&vec, "1, 1,1"},
             {&yes, "maybe"},
             {&choice, "hw"},
             {&choice, ""},
             {&choice, "hwc|chw"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    box_t b = {0}, zero = {0};
    mr_diag_t diag = {0};
    if (mr_opt_set(bad[i].opt, &b, "s", bad[i].text, &diag) != MR_ERR_CONFIG)
      fail_msg("%s = \"%s\" was taken", bad[i].opt->name, bad[i].text);
    assert_memory_equal(&b, &zero, sizeof b);
    assert_non_null(strstr(diag.text, bad[i].opt->name));
  }
}

static void a_refusal_names_stage_setting_value_and_what_is_wanted(void **state) {
  box_t b;
  mr_diag_t diag = {0};
  mr_opt_set(&vec, &b, "normalize", "x", &diag);
  assert_string_equal(diag.text,
                      "normalize: setting std = \"x\": want three numbers A,B,C in [0,1]");
  diag = (mr_diag_t){0};
  mr_opt_set(&choice, &b, "3:4: to", "x", &diag);
  assert_string_equal(diag.text, "3:4: to: setting layout = \"x\": want one of hwc|chw");
}

/* What a hint says to write has the value that was meant: units, separators, other words. */
static void hints_for_values_mean_the_same(void **state) {
  static const mr_hint_t words[] = {{"channelsfirst", "chw", NULL}, {"planes", "chwn", NULL}, {0}};
  mr_opt_t o = {.name = "x", .lo = 0, .hi = 1e12, .choices = "hwc|chw|most-recent"};
  static const struct {
    mr_opt_type_t type;
    const char *unit, *text, *hint;
  } row[] = {
      {MR_OPT_INT, "records", "10k", "; write 10000"},
      {MR_OPT_INT, "records", "1,000", "; write 1000"},
      {MR_OPT_INT, "records", "1,000,000", "; write 1000000"},
      {MR_OPT_INT, "records", "1,00", ""},
      {MR_OPT_INT, "records", "2GB", ""},
      {MR_OPT_INT, "records", "5m", "; write 5000000"},
      {MR_OPT_INT, "bytes", "2G", "; write 2147483648"}, /* as sizes of memory are read */
      {MR_OPT_INT, "bytes", "2GB", "; write 2000000000"},
      {MR_OPT_INT, "bytes", "64kib", "; write 65536"},
      {MR_OPT_INT, "ms", "2s", "; write 2000"},
      {MR_OPT_INT, "microseconds", "2ms", "; write 2000"},
      {MR_OPT_F64, "s", "5m", "; write 300"}, /* minutes, not millions */
      {MR_OPT_F64, "s", "500ms", "; write 0.5"},
      {MR_OPT_F64, "s", "2h", "; write 7200"},
      {MR_OPT_F64, "s", "5k", ""},
      {MR_OPT_F64, "", "0,5", "; write 0.5"},
      {MR_OPT_F64, "", "0,125", "; write 0.125"},
      {MR_OPT_F64, "", "1,000", ""}, /* a thousand, or one */
      {MR_OPT_F64, "", "50%", "; write 0.5"},
      {MR_OPT_ENUM, "", "CHW", "; write chw"},
      {MR_OPT_ENUM, "", "most_recent", "; write most-recent"},
      {MR_OPT_ENUM, "", "channels_first", "; write chw"},
      {MR_OPT_ENUM, "", "planes", ""}, /* what is meant is no choice here */
      {MR_OPT_ENUM, "", "chw|", ""},
  };
  o.values = words;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char hint[MR_HINT_MAX];
    o.type = row[i].type, o.unit = row[i].unit;
    mr_value_hint(&o, row[i].text, hint, sizeof hint);
    if (strcmp(hint, row[i].hint))
      fail_msg("%s of %s: \"%s\", want \"%s\"", row[i].text, row[i].unit, hint, row[i].hint);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(right_texts_are_taken),
      cmocka_unit_test(default_outside_of_its_range_is_taken_alone),
      cmocka_unit_test(wrong_texts_are_refused_and_change_nothing),
      cmocka_unit_test(a_refusal_names_stage_setting_value_and_what_is_wanted),
      cmocka_unit_test(hints_for_values_mean_the_same),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
