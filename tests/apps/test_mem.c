/* millrace mem as a person meets it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>

#include "tests/apps/program.h"

#define TINY "--layers", "1", "--embed", "32", "--mlp", "64", "--heads", "2", "--batch", "4"

static program_t p;

static size_t after(const char *label) {
  const char *at = strstr(p.out, label);
  if (!at) fail_msg("\"%s\" is not in: %s%s", label, p.out, p.err);
  return strtoull(at + strlen(label), NULL, 10);
}

static void a_run_touches_what_was_planned_to_the_byte(void **state) {
  const char *words[] = {"loss", "grad", "step"}, *dtypes[] = {"f32", "bf16"};
  for (int i = 0; i < 6; i++) {
    RUN(&p, "mem", words[i / 2], TINY, "--dtype", dtypes[i % 2]);
    if (p.status) fail_msg("%s of %s: %s", words[i / 2], dtypes[i % 2], p.err);
    assert_true(after("planned peak ") > 10000);
    assert_int_equal(after("planned peak "), after("measured peak "));
  }
}

static void the_timeline_marks_one_peak_and_tensors_stand_there(void **state) {
  RUN(&p, "mem", "loss", TINY, "--timeline", "--no-run", "--top", "2");
  assert_int_equal(p.status, 0);
  char *mark = strstr(p.out, "<- peak");
  assert_non_null(mark);
  assert_null(strstr(mark + 1, "<- peak"));
  assert_non_null(strstr(p.out, "fused in encoder_blocks.0"));
  assert_non_null(strstr(p.out, "--top N shows them"));
  assert_null(strstr(p.out, "measured"));
}

static void a_size_to_fit_into_chooses_what_fits(void **state) {
  RUN(&p, "mem", "step", TINY, "--no-run");
  size_t whole = after("planned peak ");
  char size[32];
  snprintf(size, sizeof size, "%zuB", whole * 3 / 4);
  RUN(&p, "mem", "step", TINY, "--fit", size);
  if (p.status) fail_msg("%s", p.err);
  assert_true(after("planned peak ") <= whole * 3 / 4);
  assert_int_equal(after("planned peak "), after("measured peak "));
  assert_true(after("accumulate=") > 1 || strstr(p.out, "remat=full"));
  RUN(&p, "mem", "step", TINY, "--fit", "1k");
  assert_int_equal(p.status, 1);
  assert_non_null(strstr(p.err, "the smallest peak is"));
  RUN(&p, "mem", "loss", TINY, "--fit", "1k");
  assert_int_equal(p.status, 2);
}

static void what_cannot_be_is_refused_in_one_sentence(void **state) {
  RUN(&p, "mem", "sum");
  assert_int_equal(p.status, 2);
  assert_non_null(strstr(p.err, "unknown function \"sum\"; expected loss, grad or step"));
}

static void too_large_a_batch_is_told_with_the_planned_peak(void **state) {
  RUN(&p, "mem", "step", "--batch", "65536");
  assert_int_equal(p.status, 1);
  assert_non_null(strstr(p.err, "out of memory: the planned peak is "));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_run_touches_what_was_planned_to_the_byte),
      cmocka_unit_test(the_timeline_marks_one_peak_and_tensors_stand_there),
      cmocka_unit_test(a_size_to_fit_into_chooses_what_fits),
      cmocka_unit_test(what_cannot_be_is_refused_in_one_sentence),
      cmocka_unit_test(too_large_a_batch_is_told_with_the_planned_peak),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
