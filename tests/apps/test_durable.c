/* Killed at any moment, a run has the metrics of every step up to its newest checkpoint. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include "base/xio.h"
#include "tests/apps/program.h"
#include "tests/needs.h"

#ifndef MR_FAULTS
#define MR_FAULTS "" /* a sanitizer allows no preloaded library */
#endif

enum { KILLS = 6 };

static char dir[64], graph[96], run[96];
static program_t p;

static const char text[] =
    "let run = x\nlet data = synthetic\n"
    "synthetic n=320 ! shuffle seed=1 epochs=0 ! normalize ! batch 16 drop-remainder "
    "! vit-step name=train layers=1 embed=16 mlp=16 heads=2 patch=8 threads=1 steps=100000 "
    "checkpoint-every=3\n"
    "train.metrics ! telemetry every=0 name=t\n"
    "t. ! jsonl path=$run/metrics.jsonl\n"
    "t. ! csv path=$run/metrics.csv\n"
    "train.state ! checkpoint dir=$run/checkpoints\n";

static int setup(void **state) {
  strcpy(dir, "/tmp/mr-durable-XXXXXX");
  if (!mkdtemp(dir)) return -1;
  snprintf(graph, sizeof graph, "%s/g.mr", dir);
  snprintf(run, sizeof run, "%s/run", dir);
  char all[1024];
  int n =
      snprintf(all, sizeof all, "%s%s", text, with("PROTOBUF", "t. ! tensorboard dir=$run/tb\n"));
  return mr_write_file(graph, all, (size_t)n, NULL);
}

static int teardown(void **state) { return program_forget(dir); }

/* Step of the newest checkpoint; 0: not yet written. */
static long newest(void) {
  char link[160], name[64];
  long step = 0;
  snprintf(link, sizeof link, "%s/checkpoints/latest", run);
  ssize_t n = readlink(link, name, sizeof name - 1);
  if (n < 0) return 0;
  name[n] = 0;
  assert_int_equal(sscanf(name, "step-%ld.safetensors", &step), 1);
  return step;
}

static void expect_steps(const char *file, const char *format, long steps) {
  char path[160], line[64];
  void *data;
  size_t n;
  mr_diag_t diag = {0};
  snprintf(path, sizeof path, "%s/%s", run, file);
  if (mr_read_file(path, (size_t)1 << 28, &data, &n, &diag) < 0) fail_msg("%s", diag.text);
  const char *at = data;
  for (long k = 1; k <= steps; k++) {
    snprintf(line, sizeof line, format, k);
    at = strstr(at, line); /* in order */
    if (!at) fail_msg("the checkpoint is of step %ld, %s lacks step %ld", steps, file, k);
  }
  free(data);
}

/* Trains until a checkpoint of at least this step is there, and ms longer; then kills it. */
static void train_and_kill(bool resume, long step, int ms) {
  FILE *out = tmpfile(), *err = tmpfile();
  const char *fresh[] = {"train", "--graph", graph, "--run-dir", run, NULL};
  const char *again[] = {"train", "--run-dir", run, "--resume", NULL};
  pid_t pid = program_start(resume ? again : fresh, out, err);
  assert_true(pid > 0);
  while (newest() < step) {
    siginfo_t ended = {0};
    assert_int_equal(waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT), 0);
    if (ended.si_pid) break;
    usleep(1000);
  }
  usleep((useconds_t)ms * 1000);
  kill(pid, SIGKILL);
  p.status = program_wait(pid);
  program_read(out, p.out, sizeof p.out);
  program_read(err, p.err, sizeof p.err);
  if (p.status != 128 + SIGKILL) fail_msg("status %d: %s", p.status, p.err);
  expect_steps("metrics.jsonl", "{\"kind\":\"step\",\"step\":%ld,", newest());
  expect_steps("metrics.csv", "\nstep,%ld,", newest());
}

static void metrics_on_a_slow_disk_are_there_before_the_checkpoint(void **state) {
  if (!MR_FAULTS[0]) skip();
  setenv("LD_PRELOAD", MR_FAULTS, 1);
  setenv("FAULT_SLOW", "metrics.jsonl", 1);
  setenv("FAULT_SLOW_MS", "250", 1);
  train_and_kill(false, 6, 0);
  unsetenv("LD_PRELOAD"), unsetenv("FAULT_SLOW"), unsetenv("FAULT_SLOW_MS");
}

static void killed_at_random_moments_a_run_has_the_metrics_of_its_checkpoint(void **state) {
  unsigned seed = (unsigned)time(NULL);
  print_message("seed %u\n", seed);
  for (int i = 0; i < KILLS; i++) {
    long before = newest();
    train_and_kill(i > 0, before + 3, (int)(rand_r(&seed) % 150));
    assert_null(strstr(p.err, "has no records of"));
  }
}

/* A resume cuts what the link leads to, on another disk perhaps. */
static void metrics_behind_a_link_stay_there(void **state) {
  char command[320], link[128];
  struct stat st;
  train_and_kill(false, 9, 0);
  snprintf(command, sizeof command,
           "cd %s && mv metrics.jsonl elsewhere && ln -s elsewhere metrics.jsonl && printf "
           "'{\"kind\":\"step\",\"step\":9' >> elsewhere",
           run);
  assert_int_equal(system(command), 0);
  RUN(&p, "train", "--run-dir", run, "--resume", "train.steps=12");
  if (p.status) fail_msg("%s", p.err);
  snprintf(link, sizeof link, "%s/metrics.jsonl", run);
  assert_int_equal(lstat(link, &st), 0);
  assert_true(S_ISLNK(st.st_mode));
  expect_steps("elsewhere", "{\"kind\":\"step\",\"step\":%ld,", 12);
}

static void steps_that_were_deleted_are_said_at_resume(void **state) {
  char command[256];
  train_and_kill(false, 9, 0);
  snprintf(command, sizeof command, "sed -i '/\"step\":[457],/d' %s/metrics.jsonl", run);
  assert_int_equal(system(command), 0);
  RUN(&p, "train", "--run-dir", run, "--resume", "train.steps=12");
  assert_non_null(strstr(p.err,
                         "metrics.jsonl: has no records of 3 steps before this resume: "
                         "4 to 5, 7\n"));
  assert_null(strstr(p.err, "metrics.csv: has no records"));
}

/* A run whose metrics go to a pipe: nothing may open it for reading and wait for its writer. */
static void a_run_whose_metrics_go_to_a_pipe_is_resumed(void **state) {
  char pipe[96], to_pipe[128];
  snprintf(pipe, sizeof pipe, "%s/pipe", dir);
  snprintf(to_pipe, sizeof to_pipe, "jsonl.path=%s", pipe);
  assert_int_equal(mkfifo(pipe, 0600), 0);
  int reader = open(pipe, O_RDONLY | O_NONBLOCK); /* else the sink finds none */
  assert_true(reader >= 0);
  RUN(&p, "train", "--graph", graph, "--run-dir", run, "train.steps=3", to_pipe);
  if (p.status) fail_msg("%s", p.err);
  RUN(&p, "train", "--run-dir", run, "--resume", "train.steps=6");
  if (p.status) fail_msg("%s", p.err);
  assert_int_equal(newest(), 6);
  close(reader);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {
      CASE(metrics_on_a_slow_disk_are_there_before_the_checkpoint),
      CASE(killed_at_random_moments_a_run_has_the_metrics_of_its_checkpoint),
      CASE(metrics_behind_a_link_stay_there),
      CASE(steps_that_were_deleted_are_said_at_resume),
      CASE(a_run_whose_metrics_go_to_a_pipe_is_resumed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
