/* Files that are written although every descriptor is taken. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/xio.h"

enum { FILES = 20 };

/* What strangers do: takes every descriptor, again after each file. */
static void take_all(void) {
  while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0) continue;
}

/* 0: each file was written; 1 and more: the number of one that was not. */
static int write_without_descriptors(const char *dir) {
  char path[64];
  struct rlimit few = {64, 64};
  if (setrlimit(RLIMIT_NOFILE, &few) < 0) return 100;
  mr_fd_reserve();
  take_all();
  if (errno != EMFILE) return 101;
  for (int i = 0; i < FILES; i++) {
    snprintf(path, sizeof path, "%s/%d", dir, i);
    if (mr_write_file(path, "x", 1, NULL) < 0) return i + 1;
  }
  return 0;
}

static void files_are_written_when_every_descriptor_is_taken(void **state) {
  char dir[] = "/tmp/mr-fd-XXXXXX", path[64];
  int status;
  assert_non_null(mkdtemp(dir));
  pid_t child = fork();
  if (!child) _exit(write_without_descriptors(dir));
  assert_int_equal(waitpid(child, &status, 0), child);
  for (int i = 0; i < FILES; i++) snprintf(path, sizeof path, "%s/%d", dir, i), unlink(path);
  rmdir(dir);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

static void a_reserve_is_used_up_and_taken_anew(void **state) {
  int n = 0, again = 0;
  for (mr_fd_reserve(); mr_fd_release();) n++;
  for (mr_fd_reserve(), mr_fd_reserve(); mr_fd_release();) again++;
  assert_true(n > 0);
  assert_int_equal(again, n);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(files_are_written_when_every_descriptor_is_taken),
      cmocka_unit_test(a_reserve_is_used_up_and_taken_anew),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
