/* How much memory the process may have. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/machine.h"

static void there_is_some_memory_and_no_more_than_the_machine_has(void **state) {
  size_t all = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
  assert_true(mr_machine_memory() > (size_t)16 << 20);
  assert_true(mr_machine_memory() <= all);
}

static void nothing_is_left_that_the_machine_does_not_have(void **state) {
  assert_true(mr_machine_memory_left() > 0);
  assert_true(mr_machine_memory_left() <= mr_machine_memory());
}

static void few_bytes_are_there_and_more_than_the_machine_has_are_not(void **state) {
  size_t left;
  assert_true(mr_machine_has(1 << 20, &left));
  assert_false(mr_machine_has(SIZE_MAX / 2, &left));
  assert_true(left > 0 && left <= mr_machine_memory());
}

/* ---- a hierarchy of control groups in a folder ---- */

static void put(const char *root, const char *file, const char *text) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", root, file);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
}

static void make_groups(char *root) {
  char path[512];
  assert_non_null(mkdtemp(root));
  snprintf(path, sizeof path, "%s/job", root);
  assert_int_equal(mkdir(path, 0700), 0);
  snprintf(path, sizeof path, "%s/job/step", root);
  assert_int_equal(mkdir(path, 0700), 0);
}

static void drop_groups(const char *root) {
  char command[600];
  snprintf(command, sizeof command, "rm -rf %s", root);
  assert_int_equal(system(command), 0);
}

static void a_limit_of_a_group_above_counts(void **state) {
  char root[] = "/tmp/millrace-groups-XXXXXX";
  make_groups(root);
  put(root, "job/memory.max", "8000\n"), put(root, "job/memory.current", "5000\n");
  put(root, "job/step/memory.max", "max\n"), put(root, "job/step/memory.current", "4000\n");
  assert_int_equal(mr__machine_groups(root, "/job/step", 0), 8000);
  assert_int_equal(mr__machine_groups(root, "/job/step", 1), 3000);
  put(root, "job/step/memory.max", "4500\n");
  assert_int_equal(mr__machine_groups(root, "/job/step", 0), 4500);
  assert_int_equal(mr__machine_groups(root, "/job/step", 1), 500);
  drop_groups(root);
}

static void cache_that_can_be_dropped_is_free(void **state) {
  char root[] = "/tmp/millrace-groups-XXXXXX";
  make_groups(root);
  put(root, "job/memory.max", "8000\n"), put(root, "job/memory.current", "7900\n");
  put(root, "job/memory.stat", "anon 900\nfile 7000\ninactive_file 5000\nactive_file 1000\n");
  assert_int_equal(mr__machine_groups(root, "/job", 1), 6100);
  put(root, "job/memory.stat", "inactive_file 0\n");
  put(root, "job/memory.current", "9000\n"); /* a limit that was lowered: nothing is left */
  assert_int_equal(mr__machine_groups(root, "/job", 1), 1);
  drop_groups(root);
}

static void groups_of_version_1_count_alike(void **state) {
  char root[] = "/tmp/millrace-groups-XXXXXX";
  make_groups(root);
  put(root, "job/memory.limit_in_bytes", "8000\n"),
      put(root, "job/memory.usage_in_bytes", "7900\n");
  put(root, "job/memory.stat",
      "inactive_file 10\nactive_file 7\ntotal_inactive_file 5000\ntotal_active_file 1000\n");
  put(root, "job/step/memory.limit_in_bytes", "9223372036854771712\n"); /* none */
  assert_int_equal(mr__machine_groups(root, "/job/step", 0), 8000);
  assert_int_equal(mr__machine_groups(root, "/job/step", 1), 6100);
  put(root, "job/memory.limit_in_bytes", "9223372036854771712\n");
  assert_true(mr__machine_groups(root, "/job/step", 0) == SIZE_MAX);
  drop_groups(root);
}

/* 0 is a number that the system says, and not that it says none. */
static void nothing_left_is_not_unknown(void **state) {
  char root[] = "/tmp/millrace-groups-XXXXXX", meminfo[512];
  make_groups(root);
  put(root, "job/memory.max", "8000\n"), put(root, "job/memory.current", "8000\n");
  assert_int_equal(mr__machine_groups(root, "/job", 1), 1);
  put(root, "job/memory.max", "0\n");
  assert_int_equal(mr__machine_groups(root, "/job", 0), 0);
  assert_int_equal(mr__machine_groups(root, "/job", 1), 1);
  snprintf(meminfo, sizeof meminfo, "%s/meminfo", root);
  put(root, "meminfo", "MemTotal:       24689764 kB\nMemFree:          1000 kB\n");
  assert_int_equal(mr__machine_left(meminfo, SIZE_MAX), 0);
  assert_int_equal(mr__machine_left(meminfo, 1), 1);
  put(root, "meminfo", "MemTotal:       24689764 kB\nMemAvailable:        0 kB\n");
  assert_int_equal(mr__machine_left(meminfo, SIZE_MAX), 1);
  assert_int_equal(mr__machine_left(meminfo, 5000), 1);
  put(root, "meminfo", "MemTotal:       24689764 kB\nMemAvailable:        4 kB\n");
  assert_int_equal(mr__machine_left(meminfo, SIZE_MAX), 4096);
  assert_int_equal(mr__machine_left(meminfo, 5000), 4096);
  assert_int_equal(mr__machine_left(meminfo, 3000), 3000);
  drop_groups(root);
}

static void groups_without_limits_set_none(void **state) {
  char root[] = "/tmp/millrace-groups-XXXXXX";
  make_groups(root);
  put(root, "job/memory.max", "max\n");
  assert_true(mr__machine_groups(root, "/job/step", 0) == SIZE_MAX);
  assert_true(mr__machine_groups(root, "/job/step", 1) == SIZE_MAX);
  assert_true(mr__machine_groups(root, "/gone", 1) == SIZE_MAX);
  drop_groups(root);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(groups_of_version_1_count_alike),
      cmocka_unit_test(there_is_some_memory_and_no_more_than_the_machine_has),
      cmocka_unit_test(nothing_is_left_that_the_machine_does_not_have),
      cmocka_unit_test(few_bytes_are_there_and_more_than_the_machine_has_are_not),
      cmocka_unit_test(a_limit_of_a_group_above_counts),
      cmocka_unit_test(cache_that_can_be_dropped_is_free),
      cmocka_unit_test(nothing_left_is_not_unknown),
      cmocka_unit_test(groups_without_limits_set_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
