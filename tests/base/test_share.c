/* Files that come with the program are found beside the program, in the folder above it, and where
   MILLRACE_SHARE says. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/share.h"

static char self[4096], root[] = "/tmp/mr-share-XXXXXX";

static void shell(const char *format, const char *a, const char *b) {
  char command[9000];
  snprintf(command, sizeof command, format, a, b);
  if (system(command) != 0) fail_msg("%s", command);
}

/* What a copy of this program at root/bin finds. */
static const char *found_by_copy(const char *variable) {
  static char line[4096];
  char command[9000];
  snprintf(command, sizeof command, "%s '%s/bin/copy' find", variable, root);
  FILE *p = popen(command, "r");
  assert_non_null(p);
  assert_non_null(fgets(line, sizeof line, p));
  assert_int_equal(pclose(p), 0);
  line[strcspn(line, "\n")] = 0;
  return line;
}

static const char *below_root(const char *name) {
  static char path[4096];
  snprintf(path, sizeof path, "%s/%s", root, name);
  return path;
}

static void a_tree_finds_its_own_files(void **state) {
  char path[4096];
  unsetenv("MILLRACE_SHARE");
  assert_true(mr_share_find("cuda/README.md", path, sizeof path));
  assert_int_equal(access(path, R_OK), 0);
  assert_false(mr_share_find("cuda/nothing.txt", path, sizeof path));
  assert_false(mr_share_find("cuda/README.md", path, 8)); /* no room */
}

static void an_installed_program_looks_in_its_own_prefix(void **state) {
  char copy[5000];
  snprintf(copy, sizeof copy, "'%s' '%s/bin/copy'", self, root);
  shell("mkdir -p '%s/bin' && cp %s", root, copy);
  assert_string_equal(found_by_copy(""), "nothing");
  shell("mkdir -p '%s/share/millrace' && touch '%s/share/millrace/a'", root, root);
  assert_string_equal(found_by_copy(""), below_root("bin/../share/millrace/a"));
  shell("mkdir -p '%s/bin/share/millrace' && touch '%s/bin/share/millrace/a'", root, root);
  assert_string_equal(found_by_copy(""), below_root("bin/share/millrace/a"));
}

static void the_variable_is_the_only_place(void **state) {
  char variable[5000];
  snprintf(variable, sizeof variable, "MILLRACE_SHARE='%s/share/millrace'", root);
  assert_string_equal(found_by_copy(variable), below_root("share/millrace/a"));
  assert_string_equal(found_by_copy("MILLRACE_SHARE=/nonexistent"), "nothing");
}

int main(int argc, char **argv) {
  char path[4096];
  if (argc > 1) return puts(mr_share_find("a", path, sizeof path) ? path : "nothing") < 0;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_tree_finds_its_own_files),
      cmocka_unit_test(an_installed_program_looks_in_its_own_prefix),
      cmocka_unit_test(the_variable_is_the_only_place),
  };
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n < 0 || !mkdtemp(root)) return 1;
  self[n] = 0;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  shell("rm -r '%s%s'", root, "");
  return failed;
}
