/* What the processors work is at least what this process does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"

enum { WORK_NS = 200000000, TICKS_NS = 60000000 /* counted by ticks: some may be missing */ };

static void the_processors_work_what_this_process_does(void **state) {
  int64_t all = mr_processors_ns(), own = mr_cpu_ns();
  if (!all) skip();                             /* no /proc */
  while (mr_cpu_ns() - own < WORK_NS) continue; /* asking is work too */
  assert_true(mr_processors_ns() - all >= WORK_NS - TICKS_NS);
}

static void their_time_only_grows(void **state) {
  for (int64_t i = 0, last = 0; i < 100; i++) {
    int64_t now = mr_processors_ns();
    assert_true(now >= last);
    last = now;
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_processors_work_what_this_process_does),
      cmocka_unit_test(their_time_only_grows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
