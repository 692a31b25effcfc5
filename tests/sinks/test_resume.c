/* The set of steps that a file has records of, against a table of flags. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "sinks/resume.h"
#include "tests/random.h"

enum { STEPS = 40 };

static bool has(const mr_reported_steps_t *t, int64_t step) {
  for (size_t i = 0; i < t->n; i++)
    if (t->range[i].first <= step && step <= t->range[i].last) return true;
  return false;
}

static void check_same(const round_t *r, const mr_reported_steps_t *t, const bool *in) {
  for (int k = 0; k < STEPS; k++) round_check(r, has(t, k) == in[k], "step %d", k);
  for (size_t i = 0; i < t->n; i++) {
    round_check(r, t->range[i].first <= t->range[i].last, "range %zu", i);
    round_check(r, !i || t->range[i].first > t->range[i - 1].last + 1, "range %zu", i);
  }
}

static void the_set_holds_what_was_added_and_not_forgotten(void **state) {
  round_t r = round_first(2000);
  while (round_next(&r)) {
    mr_reported_steps_t t = {0};
    bool in[STEPS] = {false};
    for (int k = 0; k < 60; k++) {
      int step = draw(&r, STEPS);
      if (one_in(&r, 12)) {
        mr_reported_steps_forget(&t, step);
        memset(in + step, 0, (size_t)(STEPS - step) * sizeof *in);
      } else {
        round_check(&r, mr_reported_steps_add(&t, step), "step %d", step);
        in[step] = true;
      }
      check_same(&r, &t, in);
    }
    mr_reported_steps_fini(&t);
  }
}

static void steps_at_the_ends_of_their_range_are_taken(void **state) {
  static const int64_t steps[] = {INT64_MAX, INT64_MIN, 5, INT64_MAX - 1, INT64_MIN + 1, INT64_MAX};
  mr_reported_steps_t t = {0};
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
    assert_true(mr_reported_steps_add(&t, steps[i]));
  assert_int_equal(t.n, 3);
  assert_true(t.range[0].first == INT64_MIN && t.range[0].last == INT64_MIN + 1);
  assert_true(t.range[2].first == INT64_MAX - 1 && t.range[2].last == INT64_MAX);
  mr_reported_steps_forget(&t, INT64_MIN + 1);
  assert_int_equal(t.n, 1);
  assert_true(t.range[0].last == INT64_MIN);
  mr_reported_steps_forget(&t, INT64_MIN);
  assert_int_equal(t.n, 0);
  mr_reported_steps_fini(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_set_holds_what_was_added_and_not_forgotten),
      cmocka_unit_test(steps_at_the_ends_of_their_range_are_taken),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
