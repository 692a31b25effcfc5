/* Libraries that are opened at run time: the file that was opened, a file that is not there, one
   that is there but cannot be loaded, and tables of calls. */
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

static void a_library_that_is_not_there_has_no_reason(void **state) {
  char path[300] = "before", file[100];
  assert_null(mr_library_open("libmr-none.so.1", path, sizeof path));
  assert_string_equal(path, "");
  snprintf(file, sizeof file, "%s/libmr-none.so.1", folder);
  assert_null(mr_library_open(file, path, sizeof path));
  assert_string_equal(path, "");
}

static void a_library_that_cannot_be_loaded_has_the_reason_of_the_loader(void **state) {
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
           "cp libmr-gone.so libmr-whole.so && "
           "cc -shared -fPIC -Wl,--no-as-needed a.c -o libmr-needs.so -L. -lmr-gone && "
           "rm libmr-gone.so",
           folder);
  if (system(command)) skip(); /* no compiler */
  snprintf(file, sizeof file, "%s/libmr-whole.so", folder);
  if (!mr_library_open(file, path, sizeof path)) skip(); /* emulated: it compiles for the host */
  snprintf(file, sizeof file, "%s/libmr-needs.so", folder);
  assert_null(mr_library_open(file, path, sizeof path));
  assert_non_null(strstr(path, "libmr-gone.so"));
}

static void a_table_gets_the_calls_that_there_are(void **state) {
  struct {
    double (*cos)(double);
    void (*none)(void);
    double (*floor)(double);
    void (*nothing)(void);
  } table = {0};
  static const mr_library_call_t call[] = {{"cos", 0},
                                           {"mr_none", sizeof(void *)},
                                           {"floor", 2 * sizeof(void *)},
                                           {"mr_nothing", 3 * sizeof(void *)},
                                           {0}};
  char path[300];
  assert_string_equal(mr_library_calls(NULL, call, &table), "");
  assert_null(table.floor);
  void *lib = mr_library_open("libm.so.6", path, sizeof path);
  assert_string_equal(mr_library_calls(lib, call, &table), "mr_none"); /* the first one */
  assert_null(table.none);
  assert_true(table.cos(0) == 1 && table.floor(2.5) == 2);
  assert_null(mr_library_calls(lib, call + 4, &table)); /* none is asked for */
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
      cmocka_unit_test(a_library_that_is_not_there_has_no_reason),
      cmocka_unit_test(a_library_that_cannot_be_loaded_has_the_reason_of_the_loader),
      cmocka_unit_test(a_table_gets_the_calls_that_there_are),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
