#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/xio.h"

enum { LINES = 100000 }; /* more than one buffer of a stream */

static void print_lines(const void *word, FILE *to) {
  for (int i = 0; i < LINES; i++) fprintf(to, "%s %d\n", (const char *)word, i);
}

static void a_printed_file_is_whole(void **state) {
  char folder[] = "/tmp/millrace-xio-XXXXXX", path[64], line[32];
  void *data;
  size_t n, at = 0;
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/lines", folder);
  assert_int_equal(mr_write_printed(path, print_lines, "line", NULL), MR_OK);
  assert_int_equal(mr_read_file(path, (size_t)1 << 24, &data, &n, NULL), MR_OK);
  for (int i = 0; i < LINES; i++) {
    int k = snprintf(line, sizeof line, "line %d\n", i);
    assert_true(at + (size_t)k <= n);
    assert_memory_equal((char *)data + at, line, (size_t)k);
    at += (size_t)k;
  }
  assert_int_equal(at, n);
  free(data);
  assert_int_equal(unlink(path), 0);
  assert_int_equal(rmdir(folder), 0); /* and no other file was left there */
}

static void a_folder_that_takes_no_file_is_reported(void **state) {
  mr_diag_t diag = {0};
  assert_int_equal(mr_write_printed("/none/there/lines", print_lines, "line", &diag), MR_ERR_IO);
  assert_non_null(strstr(diag.text, "/none/there/lines: cannot make the file"));
}

static void a_failed_write_is_reported_and_leaves_no_file(void **state) {
  char folder[] = "/tmp/millrace-xio-XXXXXX", path[96];
  mr_diag_t diag = {0};
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/new", folder);
  assert_int_equal(mr_file_writable(path, &diag), MR_OK);
  assert_int_equal(access(path, F_OK), -1);
  assert_int_equal(mr_write_file(path, "old", 3, NULL), MR_OK);
  assert_int_equal(mr_file_writable(path, &diag), MR_OK);
  void *data;
  size_t n;
  assert_int_equal(mr_read_file(path, 8, &data, &n, NULL), MR_OK);
  assert_true(n == 3 && !memcmp(data, "old", 3)); /* what stands there stays */
  free(data);
  assert_int_equal(mr_file_writable(folder, &diag), MR_ERR_IO);
  assert_non_null(strstr(diag.text, "is a folder"));
  diag = (mr_diag_t){0}; /* the first sentence stays */
  snprintf(path, sizeof path, "%s/none/new", folder);
  assert_int_equal(mr_file_writable(path, &diag), MR_ERR_IO);
  assert_non_null(strstr(diag.text, "none/new: cannot make the file: No such file"));
  assert_int_equal(mr_file_writable("", &diag), MR_ERR_IO);
  snprintf(path, sizeof path, "%s/new", folder);
  assert_int_equal(unlink(path), 0);
  assert_int_equal(rmdir(folder), 0); /* nothing else was left there */
}

/* In a folder that others may write to, a link could lead to any file of this user. */
static void a_link_under_a_temporary_name_is_not_followed(void **state) {
  char folder[] = "/tmp/millrace-xio-XXXXXX", path[64], link[96], victim[64];
  void *data;
  size_t n;
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/new", folder);
  snprintf(victim, sizeof victim, "%s/victim", folder);
  snprintf(link, sizeof link, "%s.part-%ld", path, (long)getpid()); /* easily guessed */
  assert_int_equal(mr_write_file(victim, "notes", 5, NULL), MR_OK);
  assert_int_equal(symlink(victim, link), 0);
  assert_int_equal(mr_write_file(path, "text", 4, NULL), MR_OK);
  assert_int_equal(mr_read_file(victim, 8, &data, &n, NULL), MR_OK);
  assert_true(n == 5 && !memcmp(data, "notes", 5));
  free(data);
  assert_int_equal(unlink(link) + unlink(victim) + unlink(path), 0);
  assert_int_equal(rmdir(folder), 0);
}

static void temporary_names_differ_and_end_with_the_process_id(void **state) {
  char folder[] = "/tmp/millrace-xio-XXXXXX", path[64], end[32];
  mr_newfile_t a, b;
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/new", folder);
  snprintf(end, sizeof end, "-%ld", (long)getpid());
  assert_int_equal(mr_newfile_open(&a, path, NULL), MR_OK);
  assert_int_equal(mr_newfile_open(&b, path, NULL), MR_OK);
  assert_string_not_equal(a.tmp, b.tmp);
  assert_string_equal(strrchr(a.tmp, '-'), end); /* the sweep of run folders looks there */
  mr_newfile_drop(&a), mr_newfile_drop(&b);
  assert_int_equal(rmdir(folder), 0);
}

static void a_pipe_is_refused_without_waiting_for_its_writer(void **state) {
  char folder[] = "/tmp/millrace-xio-XXXXXX", path[64];
  void *data;
  size_t n;
  mr_diag_t diag = {0};
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/pipe", folder);
  assert_int_equal(mkfifo(path, 0600), 0);
  assert_int_equal(mr_read_file(path, 8, &data, &n, &diag), MR_ERR_IO);
  assert_non_null(strstr(diag.text, "not a regular file"));
  assert_int_equal(unlink(path), 0);
  assert_int_equal(rmdir(folder), 0);
}

/* Renamed to /dev/stdout or /dev/null, a file would take the device's place for all. */
static void only_a_file_is_replaced(void **state) {
  char folder[] = "/tmp/millrace-xio-XXXXXX", path[4][64];
  static const char *const what[] = {"a link", "a pipe, socket or device", "a folder", "a link"};
  mr_newfile_t f;
  struct stat before, after;
  assert_non_null(mkdtemp(folder));
  for (int i = 0; i < 4; i++) snprintf(path[i], sizeof path[i], "%s/%d", folder, i);
  assert_int_equal(symlink("3", path[0]), 0); /* which leads to a link that leads nowhere */
  assert_int_equal(mkfifo(path[1], 0600), 0);
  assert_int_equal(mkdir(path[2], 0700), 0);
  assert_int_equal(symlink("nowhere", path[3]), 0);
  for (int i = 0; i < 4; i++) {
    mr_diag_t diag = {0};
    assert_int_equal(lstat(path[i], &before), 0);
    assert_int_equal(mr_newfile_open(&f, path[i], &diag), MR_ERR_IO);
    if (!strstr(diag.text, what[i])) fail_msg("%s", diag.text);
    assert_int_equal(mr_write_file(path[i], "text", 4, NULL), MR_ERR_IO);
    assert_int_equal(mr_file_writable(path[i], NULL), MR_ERR_IO);
    assert_int_equal(lstat(path[i], &after), 0);
    assert_true(before.st_ino == after.st_ino && before.st_mode == after.st_mode);
  }
  assert_int_equal(mr_write_own(path[1], "text", 4, NULL, NULL), MR_ERR_IO);
  assert_int_equal(mr_write_own(path[3], "text", 4, NULL, NULL), MR_OK); /* never believed */
  assert_int_equal(lstat(path[3], &after), 0);
  assert_true(S_ISREG(after.st_mode));
  assert_int_equal(unlink(path[0]) + unlink(path[1]) + rmdir(path[2]) + unlink(path[3]), 0);
  assert_int_equal(rmdir(folder), 0);
}

static void a_line_beyond_the_limit_is_skipped_without_memory_for_it(void **state) {
  FILE *f = tmpfile();
  char *line = NULL;
  size_t room = 0;
  assert_non_null(f);
  fputs("a\n12345678\n123456789", f);
  for (int i = 0; i < 100000; i++) fputc('x', f);
  fputs("\n\nlast", f);
  rewind(f);
  assert_int_equal(mr_read_line(f, 9, &line, &room), 2);
  assert_string_equal(line, "a\n");
  assert_int_equal(mr_read_line(f, 9, &line, &room), 9);
  assert_string_equal(line, "12345678\n");
  assert_int_equal(mr_read_line(f, 9, &line, &room), 0);
  assert_string_equal(line, "");
  assert_int_equal(mr_read_line(f, 9, &line, &room), 1);
  assert_string_equal(line, "\n");
  assert_int_equal(mr_read_line(f, 9, &line, &room), 4);
  assert_string_equal(line, "last");
  assert_int_equal(mr_read_line(f, 9, &line, &room), -1);
  assert_true(feof(f) && room < 1000);
  fclose(f);
  free(line);
}

/* Lines of every length around the pieces that are read, of any bytes but a newline; the last one
   may lack its own. */
static void the_rest_of_a_line_is_skipped_whatever_its_bytes(void **state) {
  static const int near[] = {0, 4095, 2 * 4095, 4096, 2 * 4096};
  for (size_t i = 0; i < 4 * sizeof near / sizeof *near; i++)
    for (int n = near[i / 4] < 3 ? 0 : near[i / 4] - 3; n < near[i / 4] + 3; n++) {
      char *line = NULL;
      size_t room = 0;
      FILE *f = tmpfile();
      assert_non_null(f);
      fputs("first", f);
      for (int k = 0; k < n; k++) fputc(i & 1 ? 0 : 'x', f);
      if (i & 2) fputs("\nnext\n", f);
      rewind(f);
      assert_int_equal(mr_read_line(f, 2, &line, &room), 0);
      assert_int_equal(mr_read_line(f, 9, &line, &room), i & 2 ? 5 : -1);
      if (i & 2) assert_string_equal(line, "next\n");
      fseek(f, 3, SEEK_SET);
      mr_skip_line(f);
      assert_int_equal(ftell(f), 5 + n + (i & 2 ? 1 : 0));
      fclose(f);
      free(line);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_printed_file_is_whole),
      cmocka_unit_test(a_folder_that_takes_no_file_is_reported),
      cmocka_unit_test(a_failed_write_is_reported_and_leaves_no_file),
      cmocka_unit_test(a_link_under_a_temporary_name_is_not_followed),
      cmocka_unit_test(only_a_file_is_replaced),
      cmocka_unit_test(temporary_names_differ_and_end_with_the_process_id),
      cmocka_unit_test(a_pipe_is_refused_without_waiting_for_its_writer),
      cmocka_unit_test(a_line_beyond_the_limit_is_skipped_without_memory_for_it),
      cmocka_unit_test(the_rest_of_a_line_is_skipped_whatever_its_bytes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
