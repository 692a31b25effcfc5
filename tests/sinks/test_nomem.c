/* Each allocation of the file sinks and of the graph around them fails once: the run fails, or all
   records are in the files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

#include "tests/needs.h"
#include "tests/sinks/talk.h"

static atomic_long calls, fail_at;

#define FAIL_OR(call)                                    \
  do {                                                   \
    if (++calls == fail_at) return errno = ENOMEM, NULL; \
    return call;                                         \
  } while (0)

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_malloc(size_t n) { FAIL_OR(__real_malloc(n)); }

void *__real_calloc(size_t n, size_t each);
void *__wrap_calloc(size_t n, size_t each);
void *__wrap_calloc(size_t n, size_t each) { FAIL_OR(__real_calloc(n, each)); }

void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n) { FAIL_OR(__real_realloc(p, n)); }

static const mr_stage_def_t *const own[] = {&talk_def, NULL};
static int setup(void **state) { return talk_setup(own); }
static int teardown(void **state) { return talk_teardown(); }

static int lines_of(const char *name) {
  char *text = read_text(name);
  int n = 0;
  for (const char *c = text; *c; c++) n += *c == '\n';
  free(text);
  return n;
}

static bool same(const char *text, const char *name) {
  char *other = read_text(name);
  bool is = !strcmp(text, other);
  free(other);
  return is;
}

static off_t size_of_events(void) {
  char path[400];
  struct stat st = {0};
  snprintf(path, sizeof path, "%s/tb", dir);
  DIR *d = opendir(path);
  for (struct dirent *e; d && (e = readdir(d));) {
    snprintf(path, sizeof path, "%s/tb/%s", dir, e->d_name);
    if (strstr(e->d_name, "tfevents")) assert_int_equal(stat(path, &st), 0);
  }
  if (d) closedir(d);
  return st.st_size;
}

/* The head of the table of a run with all its memory; "": not known yet. */
static char head[4096];

static mr_err_t run_with(long at, mr_diag_t *diag) {
  char text[512], events[128], again[128];
  assert_int_equal(talk_teardown() | talk_setup(own), 0);
  snprintf(again, sizeof again, "%s/r.csv", dir);
  assert_int_equal(mr_write_file(again, head, strlen(head), NULL), MR_OK);
  snprintf(events, sizeof events, "t. ! tensorboard dir=%s/tb", dir);
  snprintf(text, sizeof text,
           "talk last=5 name=t  t. ! jsonl path=%s/m.jsonl  t. ! csv path=%s/m.csv  "
           "t. ! csv name=csv2 path=%s resume-step=0  %s",
           dir, dir, again, with("PROTOBUF", events));
  calls = 0;
  fail_at = at;
  mr_err_t e = run(text, diag);
  fail_at = 0;
  return e;
}

static void a_failed_allocation_fails_the_run_or_costs_no_record(void **state) {
  mr_diag_t diag;
  talk_depth = 16; /* no record is lost on its way */
  assert_int_equal(run_with(0, &diag), MR_OK);
  char *table = read_text("m.csv");
  assert_true(strcspn(table, "\n") + 2 < sizeof head);
  snprintf(head, sizeof head, "%.*s", (int)strcspn(table, "\n") + 1, table);
  assert_int_equal(run_with(0, &diag), MR_OK);
  long n = calls, failed = 0;
  off_t events = size_of_events();
  for (long k = 1; k <= n; k++) {
    if (run_with(k, &diag) < 0) {
      assert_int_not_equal(strlen(diag.text), 0);
      failed++;
      continue;
    }
    if (lines_of("m.jsonl") != 7 || lines_of("m.csv") != 8 || !same(table, "m.csv") ||
        lines_of("r.csv") != 8 || !same(table, "r.csv") || size_of_events() != events)
      fail_msg("allocation %ld: the run ended well, but its files are not whole", k);
  }
  free(table);
  print_message("%ld allocations, %ld of them end the run\n", n, failed);
  assert_true(failed > n / 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(
      a_failed_allocation_fails_the_run_or_costs_no_record, setup, teardown)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
