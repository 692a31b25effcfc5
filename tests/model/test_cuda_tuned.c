/* The file of measured algorithms, as another user or a broken disk could leave it: its rows are
   not used, it stays as it is, and a notice says why.  Each process reads it once, so that each
   look is one of its own.  (apps/test_trusted.c attacks what needs no CUDA device, by whole runs.)
 */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdlib.h>

#include "base/trusted.h"
#include "base/xio.h"
#include "model/backends/cuda/tuned.h"
#include "tests/child.h"
#include "tests/kept.h"

#define DEVICE "NVIDIA H200"
#define PRODUCT "m=8 n=8320 k=384 batch=1"
enum { VERSION = 130100 };

static char dir[] = "/tmp/mr-tuned-XXXXXX", file[96], said[1024];

static void keep_notice(void *arg, const char *text) { snprintf(said, sizeof said, "%s", text); }

/* What a process does: measures a row, or looks for it: 0: found, 1: not, with a notice that names
   the file, 2: not, without one. */
static int process(const char *task) {
  mr_cuda_tuning_t row = {.version = VERSION, .workspace = 1 << 20, .ns = 1000};
  mr_notice_to(keep_notice, NULL);
  snprintf(row.device, sizeof row.device, DEVICE);
  snprintf(row.product, sizeof row.product, PRODUCT);
  if (!strcmp(task, "measure")) return mr__cuda_tuned_put(&row), said[0] != 0;
  if (mr__cuda_tuned_own(DEVICE, VERSION, PRODUCT, &row)) return 0;
  return strstr(said, getenv("MILLRACE_TUNING")) ? 1 : 2;
}

static int run_process(const char *task) {
  int status;
  pid_t child = start_anew(-1, -1, (const char *const[]){task, NULL});
  assert_true(child > 0);
  assert_int_equal(waitpid(child, &status, 0), child);
  if (!WIFEXITED(status)) fail_msg("%s: ended by signal %d", task, WTERMSIG(status));
  return WEXITSTATUS(status);
}

static void algorithms_that_another_user_may_have_measured_are_not_used(void **state) {
  char copy[128], command[400];
  assert_int_equal(run_process("measure"), 0);
  assert_int_equal(run_process("look"), 0);
  snprintf(copy, sizeof copy, "%s.copy", file);
  assert_int_equal(rename(file, copy), 0);
  for (kept_attack_t how = 0; how < KEPT_ATTACKS; how++) {
    struct stat before, after;
    snprintf(command, sizeof command, "rm -f %s && cp -a %s %s", file, copy, file);
    assert_int_equal(system(command), 0);
    if (!kept_attack(file, how)) continue;
    int want = how == KEPT_EMPTY ? 2 : 1; /* an empty file has no rows, and no fault */
    assert_int_equal(lstat(file, &before), 0);
    int got = run_process("look");
    if (got != want && !(how == KEPT_EMPTY && got == 1))
      fail_msg("%s: %d", kept_attack_name[how], got);
    if (got == 1) assert_int_equal(run_process("measure"), 1);
    assert_int_equal(lstat(file, &after), 0);
    assert_true(before.st_ino == after.st_ino || got != 1);
  }
}

static int setup(void **state) {
  if (!mkdtemp(dir)) return -1;
  snprintf(file, sizeof file, "%s/products.txt", dir);
  return setenv("MILLRACE_TUNING", file, 1);
}

static int teardown(void **state) {
  char command[128];
  snprintf(command, sizeof command, "rm -rf '%s'", dir);
  return system(command);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(algorithms_that_another_user_may_have_measured_are_not_used),
  };
  if (argc == 4) return process(argv[3]);
  return cmocka_run_group_tests(tests, setup, teardown);
}
