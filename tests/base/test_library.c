/* Libraries that are opened at run time: the file that was opened, a file that is not there, and
   one that is there but cannot be loaded. */
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

#include "base/library.h"

static char folder[] = "/tmp/mr-library-XXXXXX";

static void a_name_is_found_where_the_loader_looks(void **state) {
  char path[300];
  assert_non_null(mr_library_open("libm.so.6", path, sizeof path));
  assert_int_equal(path[0], '/');
  assert_non_null(strstr(path, "libm.so.6"));
}

static void what_is_not_there_has_no_reason(void **state) {
  char path[300] = "before", file[100];
  assert_null(mr_library_open("libmr-none.so.1", path, sizeof path));
  assert_string_equal(path, "");
  snprintf(file, sizeof file, "%s/libmr-none.so.1", folder);
  assert_null(mr_library_open(file, path, sizeof path));
  assert_string_equal(path, "");
}

static void what_cannot_be_loaded_has_the_loaders_reason(void **state) {
  char path[300], file[100], command[400];
  snprintf(file, sizeof file, "%s/libmr-junk.so.1", folder);
  FILE *f = fopen(file, "w");
  assert_non_null(f);
  fputs("junk\n", f);
  assert_int_equal(fclose(f), 0);
  assert_null(mr_library_open(file, path, sizeof path));
  assert_int_equal(strncmp(path, file, strlen(file)), 0);
  assert_true(strlen(path) > strlen(file) + 4);
  assert_null(strchr(path, '\n'));
  snprintf(command, sizeof command,
           "cd %s && echo 'int nothing;' >a.c && cc -shared -fPIC a.c -o libmr-gone.so && "
           "cc -shared -fPIC -Wl,--no-as-needed a.c -o libmr-needs.so -L. -lmr-gone && "
           "rm libmr-gone.so",
           folder);
  if (system(command)) skip(); /* no compiler */
  snprintf(file, sizeof file, "%s/libmr-needs.so", folder);
  assert_null(mr_library_open(file, path, sizeof path));
  assert_non_null(strstr(path, "libmr-gone.so"));
}

static int make_folder(void **state) { return mkdtemp(folder) ? 0 : -1; }

static int remove_folder(void **state) {
  char command[100];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_name_is_found_where_the_loader_looks),
      cmocka_unit_test(what_is_not_there_has_no_reason),
      cmocka_unit_test(what_cannot_be_loaded_has_the_loaders_reason),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
