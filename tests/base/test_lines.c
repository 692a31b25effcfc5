/* Growing files of lines: what is found in them, against a plain scan, and how little is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/lines.h"
#include "tests/random.h"

static int64_t number_of(const void *unused, const char *line, size_t n) {
  return *line >= '0' && *line <= '9' ? strtoll(line, NULL, 10) : -1;
}

/* Lines of numbers that do not decrease, some without one; the last may lack its newline. */
static size_t draw_lines(round_t *r, char *text, size_t room, bool *cut) {
  size_t n = 0;
  int64_t number = 0;
  while (n + 64 < room && !one_in(r, 40)) {
    number += draw(r, 3);
    n += one_in(r, 5) ? (size_t)sprintf(text + n, "no number\n")
                      : (size_t)sprintf(text + n, "%lld %.*s\n", (long long)number, draw(r, 20),
                                        "....................");
  }
  *cut = n && one_in(r, 3);
  return *cut ? n - 1 : n;
}

/* Where the lines above `last` begin: behind the last line of at most that number. */
static size_t scan(const char *text, size_t n, int64_t last) {
  size_t end = 0;
  for (size_t at = 0; at < n;) {
    const char *newline = memchr(text + at, '\n', n - at);
    if (!newline) break;
    int64_t k = number_of(NULL, text + at, n - at);
    at = (size_t)(newline - text) + 1;
    if (k >= 0 && k <= last) end = at;
  }
  return end;
}

static void lines_above_a_number_begin_where_a_scan_finds_them(void **state) {
  round_t r = round_first(400);
  static char text[4096];
  while (round_next(&r)) {
    bool cut;
    size_t n = draw_lines(&r, text, sizeof text, &cut);
    FILE *f = fmemopen(text, n ? n : 1, "r");
    if (!n) fclose(f), f = tmpfile();
    assert_non_null(f);
    for (int64_t last = -1; last < 12; last++)
      round_check(&r, mr_lines_above(f, last, number_of, NULL) == (int64_t)scan(text, n, last),
                  "%d lines above %lld", (int)n, (long long)last);
    fclose(f);
  }
}

/* ---- a long file, whose reads are counted ---- */

typedef struct counted {
  int64_t at, size, read;
} counted_t;

enum { LINE = 64 };

/* Line i of a file of 2^34 bytes: its number, filled up to LINE bytes. */
static ssize_t read_counted(void *cookie, char *to, size_t n) {
  counted_t *c = cookie;
  size_t k = 0;
  while (k < n && c->at < c->size) {
    char line[LINE + 1];
    snprintf(line, sizeof line, "%-63lld\n", (long long)(c->at / LINE));
    size_t from = (size_t)(c->at % LINE), here = LINE - from < n - k ? LINE - from : n - k;
    memcpy(to + k, line + from, here);
    k += here, c->at += (int64_t)here;
  }
  c->read += (int64_t)k;
  return (ssize_t)k;
}

static int seek_counted(void *cookie, off64_t *to, int whence) {
  counted_t *c = cookie;
  c->at = *to + (whence == SEEK_END ? c->size : whence == SEEK_CUR ? c->at : 0);
  *to = c->at;
  return 0;
}

static void a_long_file_is_searched_with_few_reads(void **state) {
  counted_t c = {.size = INT64_C(1) << 34};
  int64_t lines = c.size / LINE;
  FILE *f =
      fopencookie(&c, "r", (cookie_io_functions_t){.read = read_counted, .seek = seek_counted});
  assert_non_null(f);
  const int64_t last[] = {0, 1, 12345678, lines / 2, lines - 100, lines - 1, lines};
  for (size_t i = 0; i < sizeof last / sizeof *last; i++) {
    int64_t want = last[i] + 1 < lines ? (last[i] + 1) * LINE : c.size;
    c.read = 0;
    assert_true(mr_lines_above(f, last[i], number_of, NULL) == want);
    if (c.read > 1 << 20) fail_msg("%lld bytes read for %lld", (long long)c.read, (long long)want);
  }
  fclose(f);
}

static void the_last_line_of_a_kind_is_found_before_a_byte(void **state) {
  enum { LINES = 60000, FILLED = 40 };
  char path[] = "/tmp/mr-lines-XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  FILE *f = fdopen(fd, "w+");
  int64_t kind_at[LINES / 10000], end[LINES / 10000];
  for (int i = 0; i < LINES; i++) {
    if (i % 10000 == 0) kind_at[i / 10000] = (int64_t)ftello(f);
    fprintf(f, "%s %d %.*s kind\n", i % 10000 ? "line" : "kind", i, FILLED,
            "........................................");
    if (i % 10000 == 9999) end[i / 10000] = (int64_t)ftello(f);
  }
  int64_t all = (int64_t)ftello(f);
  for (int i = 0; i < LINES / 10000; i++) {
    assert_true(mr_lines_last(f, end[i], all, "kind") == kind_at[i]);
    assert_true(mr_lines_last(f, end[i], end[i] - kind_at[i] - 1, "kind") == -1);
    if (i) assert_true(mr_lines_last(f, kind_at[i], all, "kind") == kind_at[i - 1]);
  }
  assert_true(mr_lines_last(f, all, all, "none") == -1);
  assert_true(mr_lines_last(f, 0, all, "kind") == -1);
  fclose(f);
  assert_int_equal(unlink(path), 0);
}

static void a_sample_has_the_first_and_the_last_lines_and_no_more_than_asked(void **state) {
  char path[] = "/tmp/mr-lines-XXXXXX", *text;
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  FILE *f = fdopen(fd, "w");
  for (int i = 0; i < 100000; i++) fprintf(f, "%d\n", i);
  assert_int_equal(fclose(f), 0);
  size_t n;
  bool all;
  assert_int_equal(mr_lines_sample(path, 1 << 20, &text, &n, &all, NULL), MR_OK);
  assert_true(all && n == 588890 && strlen(text) == n);
  free(text);
  assert_int_equal(mr_lines_sample(path, 1 << 16, &text, &n, &all, NULL), MR_OK);
  assert_true(!all && n <= 1 << 16 && n > 1 << 15);
  assert_memory_equal(text, "0\n1\n2\n", 6);
  assert_string_equal(text + n - 12, "99998\n99999\n");
  int before = -1, pieces = 1;
  for (char *at = text; *at; at = strchr(at, '\n') + 1) {
    int k = atoi(at);
    assert_true(k > before);
    pieces += k != before + 1;
    before = k;
  }
  assert_int_equal(pieces, 64);
  free(text);
  assert_int_equal(unlink(path), 0);
  assert_int_equal(mr_lines_sample(path, 1 << 16, &text, &n, &all, NULL), MR_ERR_IO);
  assert_null(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lines_above_a_number_begin_where_a_scan_finds_them),
      cmocka_unit_test(a_long_file_is_searched_with_few_reads),
      cmocka_unit_test(the_last_line_of_a_kind_is_found_before_a_byte),
      cmocka_unit_test(a_sample_has_the_first_and_the_last_lines_and_no_more_than_asked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
