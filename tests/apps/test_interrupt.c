/* What may happen to a run from outside: its reader goes, its files may not grow, it is asked to
   end once or twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/resource.h>

#include "base/xio.h"
#include "tests/apps/program.h"

enum { FEW_BYTES = 3000 };

static char dir[64], run[96], metrics[128];
static program_t p;

static int setup(void **state) {
  strcpy(dir, "/tmp/mr-interrupt-XXXXXX");
  if (!mkdtemp(dir)) return -1;
  snprintf(run, sizeof run, "%s/r", dir);
  snprintf(metrics, sizeof metrics, "%s/metrics.jsonl", run);
  return 0;
}

static int teardown(void **state) { return program_forget(dir); }

#define SMALL \
  "train.layers=1", "train.embed=32", "train.heads=2", "train.mlp=32", "batch=16", "seed=12"

static char *text_of(const char *path) {
  void *text;
  size_t n;
  mr_diag_t diag;
  if (mr_read_file(path, 1 << 24, &text, &n, &diag) < 0) fail_msg("%s", diag.text);
  return text;
}

static void take_words(FILE *out, FILE *err, pid_t pid) {
  p.status = program_wait(pid);
  program_read(out, p.out, sizeof p.out);
  program_read(err, p.err, sizeof p.err);
}

static void a_reader_that_is_gone_does_not_end_a_run(void **state) {
  const char *words[] = {"train", "--run-dir",        run,   "--steps",
                         "30",    "progress.every=1", SMALL, NULL};
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  FILE *out = fdopen(ends[1], "w"), *err = tmpfile();
  close(ends[0]); /* the first line finds nobody */
  pid_t pid = program_start(words, out, err);
  fclose(out);
  p.status = program_wait(pid);
  program_read(err, p.err, sizeof p.err);
  char *told = text_of(metrics);
  assert_non_null(strstr(told, "{\"kind\":\"final\",\"step\":30,"));
  free(told);
  assert_int_equal(p.status, 0);
}

/* Starts the program so that none of its files may grow beyond a few bytes. */
static void run_with_few_bytes(const char *const *words) {
  FILE *out = tmpfile(), *err = tmpfile();
  struct rlimit old, few;
  getrlimit(RLIMIT_FSIZE, &old);
  few = (struct rlimit){FEW_BYTES, old.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &few), 0);
  pid_t pid = program_start(words, out, err);
  setrlimit(RLIMIT_FSIZE, &old);
  take_words(out, err, pid);
}

static void a_limit_of_file_sizes_costs_metrics_and_not_the_run(void **state) {
  char graph[512];
  snprintf(
      graph, sizeof graph,
      "synthetic n=640 ! shuffle epochs=1 ! normalize ! batch 16 ! vit-step name=train layers=1 "
      "embed=16 mlp=16 heads=2 ! jsonl path=%s",
      metrics);
  run_with_few_bytes((const char *const[]){"run", graph, NULL});
  if (p.status) fail_msg("%d: %s", p.status, p.err);
  assert_non_null(strstr(p.err, "cannot write: File too large; the run goes on"));
  assert_non_null(strstr(p.out, "train: 40 steps"));
  char *told = text_of(metrics);
  assert_true(strlen(told) > FEW_BYTES / 2 && strlen(told) <= FEW_BYTES);
  free(told);
}

static void a_checkpoint_beyond_the_limit_ends_the_run_with_the_reason(void **state) {
  run_with_few_bytes((const char *const[]){"train", "--run-dir", run, "--steps", "2", SMALL, NULL});
  assert_int_equal(p.status, 1);
  assert_non_null(strstr(p.err, "checkpoint"));
  assert_non_null(strstr(p.err, "File too large"));
}

/* One that has heard Ctrl-C and waits for a buffer's delay.  A run that hears it before the delay
   has a buffer ends by itself, and another is started. */
static pid_t one_that_was_asked_to_end(FILE *out, FILE *err) {
  const char *words[] = {"run", "count 2 ! delay us=1e9 asleep ! null", NULL};
  for (;;) {
    pid_t pid = program_start(words, out, err);
    assert_int_equal(program_wait_for_handler(pid, SIGINT, 1), 0);
    kill(pid, SIGINT);
    if (!program_wait_for_handler(pid, SIGINT, 0)) return pid;
    assert_int_equal(program_wait(pid), 130);
  }
}

static void a_second_ctrl_c_ends_it_at_once(void **state) {
  FILE *out = tmpfile(), *err = tmpfile();
  pid_t pid = one_that_was_asked_to_end(out, err);
  kill(pid, SIGINT);
  take_words(out, err, pid);
  assert_int_equal(p.status, 128 + SIGINT);
}

static void sigterm_ends_it_as_ctrl_c_does(void **state) {
  FILE *out = tmpfile(), *err = tmpfile();
  pid_t pid = program_start((const char *const[]){"run", "count 0 ! null", NULL}, out, err);
  assert_int_equal(program_wait_for_handler(pid, SIGTERM, 1), 0);
  kill(pid, SIGTERM);
  take_words(out, err, pid);
  assert_int_equal(p.status, 130);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {
      CASE(a_reader_that_is_gone_does_not_end_a_run),
      CASE(a_limit_of_file_sizes_costs_metrics_and_not_the_run),
      CASE(a_checkpoint_beyond_the_limit_ends_the_run_with_the_reason),
      CASE(a_second_ctrl_c_ends_it_at_once),
      CASE(sigterm_ends_it_as_ctrl_c_does),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
