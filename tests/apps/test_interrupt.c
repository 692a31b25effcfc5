/* What may happen to a run from outside: its reader goes, its files may not grow, it is asked to
   end once or twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/xio.h"
#include "tests/apps/program.h"
#include "tests/needs.h"

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
  close(ends[0]); /* the first line finds no reader */
  pid_t pid = program_start(words, out, err);
  fclose(out);
  p.status = program_wait(pid);
  program_read(err, p.err, sizeof p.err);
  char *reported = text_of(metrics);
  assert_non_null(strstr(reported, "{\"kind\":\"final\",\"step\":30,"));
  free(reported);
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

/* Every step is made, and the run fails, because its metrics are not whole. */
static void a_limit_of_file_sizes_costs_metrics_and_not_the_training(void **state) {
  char graph[512];
  snprintf(
      graph, sizeof graph,
      "synthetic n=640 ! shuffle epochs=1 ! normalize ! batch 16 ! vit-step name=train layers=1 "
      "embed=16 mlp=16 heads=2 ! jsonl path=%s",
      metrics);
  run_with_few_bytes((const char *const[]){"run", graph, NULL});
  if (p.status != 1) fail_msg("%d: %s", p.status, p.err);
  assert_non_null(strstr(p.err, "cannot write: File too large; training continues"));
  assert_non_null(strstr(p.err, "records could not be written"));
  char *reported = text_of(metrics);
  assert_true(strlen(reported) > FEW_BYTES / 2 && strlen(reported) <= FEW_BYTES);
  free(reported);
}

static void a_checkpoint_beyond_the_limit_ends_the_run_with_the_reason(void **state) {
  run_with_few_bytes((const char *const[]){"train", "--run-dir", run, "--steps", "2", SMALL, NULL});
  assert_int_equal(p.status, 1);
  assert_non_null(strstr(p.err, "checkpoint"));
  assert_non_null(strstr(p.err, "File too large"));
}

static bool has_ended(pid_t pid) {
  siginfo_t info = {0};
  return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid;
}

/* Asks again and again until the run ends; whether it was the signal that ended it.  A run that
   hears it before the delay has a buffer ends by itself. */
static bool ends_by_signals(int signo) {
  FILE *out = tmpfile(), *err = tmpfile();
  pid_t pid =
      program_start((const char *const[]){"run", "count 2 ! delay us=1e9 ! null", NULL}, out, err);
  assert_int_equal(program_wait_for_handler(pid, signo, 1), 0);
  int64_t from = mr_now_ns();
  for (; !has_ended(pid); usleep(5000)) kill(pid, signo);
  int64_t took = mr_now_ns() - from;
  take_words(out, err, pid);
  assert_non_null(
      strstr(p.err, "stopping in order; Ctrl-C again, from 2 seconds on, ends at once"));
  assert_int_equal(p.status, 128 + signo);  /* also of a run that ends in order */
  if (strstr(p.err, "busy")) return false;  /* the statistics of its end */
  assert_true(took >= INT64_C(2000000000)); /* those before were one and the same */
  return true;
}

static void a_second_signal_ends_it_after_the_grace(void **state) {
  while (!ends_by_signals(SIGTERM)) continue;
}

static void the_first_signal_ends_a_stage_that_sleeps(void **state) {
  FILE *out = tmpfile(), *err = tmpfile();
  pid_t pid = program_start(
      (const char *const[]){"run", "count 2 ! delay us=1e9 asleep ! null", NULL}, out, err);
  assert_int_equal(program_wait_for_handler(pid, SIGTERM, 1), 0);
  kill(pid, SIGTERM);
  take_words(out, err, pid);
  assert_int_equal(p.status, 128 + SIGTERM);
}

/* As timeout, srun and make send it: to the process and to its group, at the same moment. */
static void a_signal_that_comes_twice_loses_no_step(void **state) {
  const char *words[] = {"train", "--run-dir", run, "--epochs", "1000", "train.checkpoint-every=0",
                         SMALL,   NULL};
  FILE *out = tmpfile(), *err = tmpfile();
  pid_t pid = program_start(words, out, err);
  struct stat st;
  while ((stat(metrics, &st) || !st.st_size) && !has_ended(pid)) usleep(1000);
  for (int i = 0; i < 3; i++) kill(pid, SIGTERM);
  take_words(out, err, pid);
  if (p.status != 128 + SIGTERM) fail_msg("status %d: %s%s", p.status, p.out, p.err);
  assert_non_null(strstr(p.err, "stopping after this step, with a checkpoint; Ctrl-C again"));
  char *reported = text_of(metrics), *last = NULL, path[192];
  for (char *at = reported; (at = strstr(at, "{\"kind\":\"step\",\"step\":")); at++) last = at;
  assert_non_null(last);
  snprintf(path, sizeof path, "%s/checkpoints/step-%06d.safetensors", run, atoi(last + 22));
  if (access(path, F_OK)) fail_msg("%s is not there: %s", path, p.err);
  free(reported);
}

/* Whether a checkpoint is being written. */
static bool writes(const char *folder) {
  bool found = false;
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d));) found |= strstr(e->d_name, ".part-") != NULL;
  if (d) closedir(d);
  return found;
}

/* The end that a second signal brings, asked for by the process above. */
static void a_checkpoint_under_way_is_finished(void **state) {
  const char *words[] = {"train",   "--run-dir", run,         "--steps",
                         "1000",    "layers=4",  "embed=512", "mlp=2048",
                         "heads=2", "batch=8",   "patch=16",  "train.checkpoint-every=1",
                         NULL};
  char folder[128], latest[160];
  struct stat st;
  snprintf(folder, sizeof folder, "%s/checkpoints", run);
  snprintf(latest, sizeof latest, "%s/latest", folder);
  FILE *out = tmpfile(), *err = tmpfile();
  pid_t pid = program_start(words, out, err);
  while (!writes(folder) && !has_ended(pid)) usleep(200);
  sigqueue(pid, SIGUSR2, (union sigval){.sival_int = 2});
  take_words(out, err, pid);
  if (p.status != 128 + SIGUSR2) fail_msg("status %d: %s", p.status, p.err);
  assert_false(writes(folder));
  assert_int_equal(stat(latest, &st), 0);
}

static void a_trace_that_cannot_be_written_is_reported_before_the_run(void **state) {
  char graph[256], ledger[128];
  snprintf(ledger, sizeof ledger, "%s/ledger.txt", dir);
  snprintf(graph, sizeof graph, "synthetic n=8 ! shuffle ! batch 4 ! ledger path=%s", ledger);
  RUN(&p, "run", graph, "--trace", "/proc/none/trace.json");
  assert_int_equal(p.status, 1);
  assert_non_null(strstr(p.err, "/proc/none/trace.json: cannot make the file"));
  assert_int_equal(access(ledger, F_OK), -1);
}

static void sigterm_ends_it_as_ctrl_c_does(void **state) {
  FILE *out = tmpfile(), *err = tmpfile();
  pid_t pid = program_start((const char *const[]){"run", "count 0 ! null", NULL}, out, err);
  assert_int_equal(program_wait_for_handler(pid, SIGTERM, 1), 0);
  kill(pid, SIGTERM);
  take_words(out, err, pid);
  assert_int_equal(p.status, 128 + SIGTERM);
}

/* The newest step that has a checkpoint; 0: none. */
static int saved_step(void) {
  char path[192], to[64];
  snprintf(path, sizeof path, "%s/checkpoints/latest", run);
  ssize_t n = readlink(path, to, sizeof to - 1);
  to[n < 0 ? 0 : n] = 0;
  return n < 0 ? 0 : atoi(to + 5);
}

static void sigusr1_writes_a_checkpoint_and_the_run_continues(void **state) {
  const char *words[] = {"train", "--run-dir", run, "--epochs", "1000", "train.checkpoint-every=0",
                         SMALL,   NULL};
  FILE *out = tmpfile(), *err = tmpfile();
  pid_t pid = program_start(words, out, err);
  struct stat st;
  while ((stat(metrics, &st) || !st.st_size) && !has_ended(pid)) usleep(1000);
  for (int i = 0, last = 0; i < 2; i++) {
    last = saved_step();
    kill(pid, SIGUSR1);
    while (saved_step() == last && !has_ended(pid)) usleep(1000);
    assert_true(saved_step() > last);
    assert_false(has_ended(pid));
  }
  kill(pid, SIGINT);
  take_words(out, err, pid);
  assert_int_equal(p.status, 130);
  assert_non_null(strstr(p.err, "writing a checkpoint after this step"));
}

/* A server that takes connections and never answers; returns its socket. */
static int silent_server(int *port) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t n = sizeof at;
  int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(s, (struct sockaddr *)&at, n), 0);
  assert_int_equal(listen(s, 8), 0);
  assert_int_equal(getsockname(s, (struct sockaddr *)&at, &n), 0);
  *port = ntohs(at.sin_port);
  return s;
}

/* Planning may wait for a server for minutes, or make indexes; one signal ends it, but for the one
   that asks for a checkpoint.  Where a signal kills, the first one does. */
static void one_signal_ends_planning(void **state) {
  NEEDS("CURL");
  static const struct {
    const char *command, *needs, *graph;
  } form[] = {
      {"run", "", "table http://127.0.0.1:%d/x.csv ! batch 2 ! null"},
      {"run", "ZMQ", "process one { table http://127.0.0.1:%d/x.csv ! batch 2 ! null }"},
      {"serve", "ZMQ", "table http://127.0.0.1:%d/x.csv ! batch 2"},
      {"graph", "", "table http://127.0.0.1:%d/x.csv ! batch 2 ! null"},
  };
  for (size_t i = 0; i < 2 * (sizeof form / sizeof *form); i++) {
    if (!mr_built_in(form[i / 2].needs)) continue;
    int port, server = silent_server(&port), way;
    FILE *out = tmpfile(), *err = tmpfile();
    char graph[128];
    snprintf(graph, sizeof graph, form[i / 2].graph, port);
    pid_t pid = program_start((const char *const[]){form[i / 2].command, graph, NULL}, out, err);
    assert_true((way = accept(server, NULL, NULL)) >= 0);
    int64_t begun = mr_now_ns();
    kill(pid, SIGUSR1), kill(pid, i % 2 ? SIGTERM : SIGINT);
    take_words(out, err, pid);
    assert_int_equal(p.status, 128 + (i % 2 ? SIGTERM : SIGINT));
    assert_true(mr_now_ns() - begun < INT64_C(25000000000)); /* the server has 30 s */
    close(way), close(server);
  }
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {
      CASE(a_reader_that_is_gone_does_not_end_a_run),
      CASE(a_limit_of_file_sizes_costs_metrics_and_not_the_training),
      CASE(a_checkpoint_beyond_the_limit_ends_the_run_with_the_reason),
      CASE(a_second_signal_ends_it_after_the_grace),
      CASE(the_first_signal_ends_a_stage_that_sleeps),
      CASE(a_signal_that_comes_twice_loses_no_step),
      CASE(a_checkpoint_under_way_is_finished),
      CASE(a_trace_that_cannot_be_written_is_reported_before_the_run),
      CASE(sigterm_ends_it_as_ctrl_c_does),
      CASE(sigusr1_writes_a_checkpoint_and_the_run_continues),
      CASE(one_signal_ends_planning),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
