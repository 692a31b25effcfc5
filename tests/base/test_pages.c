/* Memory for large arrays: every byte is there, aligned, and huge pages are asked for. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine.h"

#define MIB ((size_t)1 << 20)

static void every_byte_can_be_written_and_lies_aligned(void **state) {
  static const size_t sizes[] = {0,           1,       63,          64,           65,
                                 4 * MIB - 1, 4 * MIB, 4 * MIB + 1, 7 * MIB + 77, 64 * MIB};
  (void)state;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    unsigned char *x = mr_pages_alloc(sizes[i]);
    assert_non_null(x);
    assert_int_equal((uintptr_t)x % 64, 0);
    memset(x, 0xA5, sizes[i]);
    if (sizes[i]) assert_int_equal(x[sizes[i] - 1], 0xA5);
    free(x);
  }
}

static void a_size_that_wraps_is_refused(void **state) {
  (void)state;
  volatile size_t most = SIZE_MAX; /* or the compiler knows the size and warns */
  assert_null(mr_pages_alloc(most));
}

/* The flags of the mapping that holds `at`, as the kernel tells them; empty: it does not. */
static void flags_of(const void *at, char flags[512]) {
  FILE *f = fopen("/proc/self/smaps", "r");
  unsigned long long from, to;
  bool inside = false;
  char line[512];
  flags[0] = 0;
  while (f && fgets(line, sizeof line, f)) {
    if (sscanf(line, "%llx-%llx ", &from, &to) == 2)
      inside = from <= (uintptr_t)at && (uintptr_t)at < to;
    else if (inside && !strncmp(line, "VmFlags:", 8))
      memcpy(flags, line, sizeof line);
  }
  if (f) fclose(f);
}

static void large_arrays_ask_for_huge_pages(void **state) {
  (void)state;
  char flags[512];
  FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
  if (!f) skip(); /* a kernel without them */
  fclose(f);
  char *x = mr_pages_alloc(8 * MIB);
  assert_non_null(x);
  x[0] = 1;
  flags_of(x, flags);
  if (*flags) assert_non_null(strstr(flags, " hg"));
  free(x);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_byte_can_be_written_and_lies_aligned),
      cmocka_unit_test(a_size_that_wraps_is_refused),
      cmocka_unit_test(large_arrays_ask_for_huge_pages),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
