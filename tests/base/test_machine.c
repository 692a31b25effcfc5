/* How much memory the process may have. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <unistd.h>

#include "base/machine.h"

static void there_is_some_memory_and_no_more_than_the_machine_has(void **state) {
  size_t all = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
  assert_true(mr_machine_memory() > (size_t)16 << 20);
  assert_true(mr_machine_memory() <= all);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(there_is_some_memory_and_no_more_than_the_machine_has),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
