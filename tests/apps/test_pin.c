/* pin=true on fewer processors than threads: it is said, and changes no result. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sched.h>

#include "tests/apps/program.h"

static program_t p;

/* The program inherits the one processor that this test keeps. */
static int keep_one_processor(void **state) {
  cpu_set_t may, one;
  int cpu = 0;
  if (sched_getaffinity(0, sizeof may, &may)) return -1;
  while (!CPU_ISSET(cpu, &may)) cpu++;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  return sched_setaffinity(0, sizeof one, &one);
}

/* Two steps; the ledger at their end. */
static uint64_t ledger_of(const char *threads, const char *pin) {
  RUN(&p, "run",
      "synthetic n=16 ! sequential ! normalize preset=cifar10 ! batch 8 ! vit-step name=step "
      "layers=1 embed=32 mlp=32 heads=2 steps=2",
      threads, pin);
  if (p.status) fail_msg("status %d: %s", p.status, p.err);
  const char *at = strstr(p.out, "ledger ");
  if (!at) fail_msg("no ledger in: %s", p.out);
  return strtoull(at + 7, NULL, 16);
}

static void more_pinned_threads_than_processors_are_said_and_change_no_bit(void **state) {
  uint64_t free = ledger_of("step.threads=2", "step.pin=false");
  if (strstr(p.err, "pin=true")) fail_msg("nothing is pinned: %s", p.err);
  assert_true(ledger_of("step.threads=2", "step.pin=true") == free);
  if (!strstr(p.err, "step: pin=true ties threads=2 to 1 processor, which is all"))
    fail_msg("not said: %s", p.err);
}

static void a_pinned_thread_for_each_processor_says_nothing(void **state) {
  uint64_t all = ledger_of("step.threads=0", "step.pin=true");
  if (strstr(p.err, "pin=true")) fail_msg("said for no reason: %s", p.err);
  assert_true(ledger_of("step.threads=1", "step.pin=true") == all);
  if (strstr(p.err, "pin=true")) fail_msg("said for no reason: %s", p.err);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(more_pinned_threads_than_processors_are_said_and_change_no_bit),
      cmocka_unit_test(a_pinned_thread_for_each_processor_says_nothing),
  };
  return cmocka_run_group_tests(tests, keep_one_processor, NULL);
}
