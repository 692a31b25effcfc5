/* The ledger's promise, kept by the whole program: workers, Ctrl-C and kill -9 change nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>
#include <dirent.h>
#include <stdbool.h>
#include <time.h>

#include "base/clock.h"
#include "base/xio.h"
#include "tests/apps/program.h"

enum { STEPS = 24 }; /* two epochs of 12 */

static const char graph[] =
    "let run = unset\n"
    "let seed = 12\n"
    "synthetic n=100 split=train ! shuffle seed=$seed epochs=2 ! flip p=0.5\n"
    "  ! resized-crop size=32 scale=0.9:1.0 ratio=0.9:1.1 ! normalize preset=cifar10\n"
    "  ! batch 8 drop-remainder name=batches\n"
    "  ! vit-step name=train layers=1 embed=32 mlp=32 heads=2 seed=$seed checkpoint-every=5\n"
    "synthetic name=held n=64 split=valid ! sequential epochs=0 ! normalize preset=cifar10\n"
    "  ! batch 16 name=held-batches ! train.valid\n"
    "synthetic name=last n=32 split=test ! sequential epochs=1 ! normalize preset=cifar10\n"
    "  ! batch 16 name=last-batches ! train.test\n"
    "train.metrics ! jsonl path=$run/metrics.jsonl\n"
    "train.metrics ! progress\n"
    "train.state ! checkpoint dir=$run/checkpoints\n";

static program_t p;
static char dir[64], file[96], whole[96], other[96];
static char ledger[17]; /* of the undisturbed run in whole */
static int whole_ms;    /* and how long it took */

static void read_ledger(char text[17]) {
  const char *at = strstr(p.out, "ledger ");
  if (p.status != 0 || !at) fail_msg("status %d, no ledger in: %s%s", p.status, p.out, p.err);
  snprintf(text, 17, "%.16s", at + 7);
}

static int group_setup(void **state) {
  strcpy(dir, "/tmp/mr-exact-XXXXXX");
  if (!mkdtemp(dir)) return -1;
  snprintf(file, sizeof file, "%s/small.mr", dir);
  snprintf(whole, sizeof whole, "%s/whole", dir);
  snprintf(other, sizeof other, "%s/other", dir);
  if (mr_write_file(file, graph, sizeof graph - 1, NULL) < 0) return -1;
  double from = mr_now_s();
  RUN(&p, "train", "--graph", file, "--run-dir", whole);
  whole_ms = 1 + (int)((mr_now_s() - from) * 1000);
  read_ledger(ledger);
  return 0;
}

static int remove_other(void **state) { return program_forget(other); }

static int group_teardown(void **state) { return program_forget(dir); }

/* ---- what must be equal ---- */

static char *last_checkpoint(const char *run, size_t *n) {
  char path[192];
  void *bytes;
  mr_diag_t diag = {0};
  snprintf(path, sizeof path, "%s/checkpoints/step-%06d.safetensors", run, STEPS);
  if (mr_read_file(path, 1 << 28, &bytes, n, &diag) < 0) fail_msg("%s", diag.text);
  return bytes;
}

/* Parameters and moments, step, position and ledger: the whole file. */
static void expect_same_weights(void) {
  size_t n, m;
  char *x = last_checkpoint(whole, &n), *y = last_checkpoint(other, &m);
  assert_int_equal(n, m);
  assert_memory_equal(x, y, n);
  free(x);
  free(y);
}

static double number(const cJSON *j, const char *key) {
  const cJSON *v = cJSON_GetObjectItemCaseSensitive(j, key);
  if (!cJSON_IsNumber(v)) fail_msg("no number %s", key);
  return v->valuedouble;
}

static const char *text_of(const cJSON *j, const char *key) {
  const char *v = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(j, key));
  if (!v) fail_msg("no text %s", key);
  return v;
}

/* Every line whole; each step once and in order; validations, a test, and the end. */
static void expect_metrics(const char *run) {
  char path[192], *save = NULL;
  int step = 0, valid = 0, test = 0, final = 0;
  void *bytes;
  size_t n;
  snprintf(path, sizeof path, "%s/metrics.jsonl", run);
  assert_int_equal(mr_read_file(path, 1 << 24, &bytes, &n, NULL), MR_OK);
  assert_int_equal(((char *)bytes)[n - 1], '\n');
  ((char *)bytes)[n - 1] = 0;
  for (char *line = strtok_r(bytes, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
    cJSON *j = cJSON_Parse(line);
    if (!j) fail_msg("not JSON: %s", line);
    const char *kind = text_of(j, "kind");
    assert_string_equal(text_of(j, "data"), "synthetic");
    assert_int_equal(strlen(text_of(j, "ledger")), 16);
    assert_int_equal(final, 0); /* nothing after the end */
    if (!strcmp(kind, "step")) assert_int_equal((int)number(j, "step"), ++step);
    if (!strcmp(kind, "valid")) assert_int_equal((int)number(j, "step"), 12 * ++valid);
    test += !strcmp(kind, "test");
    if (!strcmp(kind, "final")) {
      final++;
      assert_string_equal(text_of(j, "ledger"), ledger);
    }
    cJSON_Delete(j);
  }
  free(bytes);
  assert_int_equal(step, STEPS);
  assert_int_equal(valid, 2);
  assert_int_equal(test, 1);
  assert_int_equal(final, 1);
}

static void expect_no_leftovers(void) {
  static const char *const sub[] = {"", "/checkpoints"};
  char path[192];
  for (int i = 0; i < 2; i++) {
    snprintf(path, sizeof path, "%s%s", other, sub[i]);
    DIR *d = opendir(path);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
      if (strstr(e->d_name, ".part-") || strstr(e->d_name, ".latest-"))
        fail_msg("left over: %s/%s", path, e->d_name);
    closedir(d);
  }
}

static void expect_as_whole(void) {
  char now[17];
  read_ledger(now);
  assert_string_equal(now, ledger);
  expect_same_weights();
  expect_metrics(other);
  expect_no_leftovers();
}

/* ---- the tests ---- */

static void metrics_tell_every_step_once(void **state) { expect_metrics(whole); }

static void workers_do_not_change_ledger_or_weights(void **state) {
  static const char *const workers[] = {"batches.workers=1", "batches.workers=2",
                                        "batches.workers=4"};
  for (int i = 0; i < 3; i++) {
    RUN(&p, "train", "--graph", file, "--run-dir", other, workers[i]);
    expect_as_whole();
    remove_other(state);
  }
}

static void another_seed_has_another_ledger(void **state) {
  char now[17];
  RUN(&p, "train", "--graph", file, "--run-dir", other, "seed=13");
  read_ledger(now);
  assert_string_not_equal(now, ledger);
}

/* Starts or resumes, sends a signal after some milliseconds, and waits. */
static void run_for(int ms, int workers, int signo, bool resume) {
  char set[32];
  snprintf(set, sizeof set, "batches.workers=%d", workers);
  FILE *out = tmpfile(), *err = tmpfile();
  const char *fresh[] = {"train", "--graph", file, "--run-dir", other, set, NULL};
  const char *again[] = {"train", "--resume", "--run-dir", other, set, NULL};
  pid_t pid = program_start(resume ? again : fresh, out, err);
  nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
  int status = -1;
  assert_true(pid > 0);
  kill(pid, signo);
  waitpid(pid, &status, 0);
  p.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  program_read(out, p.out, sizeof p.out);
  program_read(err, p.err, sizeof p.err);
}

static bool begun(void) {
  char path[192];
  snprintf(path, sizeof path, "%s/settings.txt", other);
  return access(path, F_OK) == 0;
}

static unsigned seed_of_today(void) {
  const char *given = getenv("MR_TEST_SEED");
  unsigned seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);
  print_message("MR_TEST_SEED=%u\n", seed);
  return seed;
}

/* Ends the run by signals at random moments, under other workers each time, until it ends by
   itself.  How often it was ended. */
static int disturb(int signo, int times, unsigned *seed) {
  for (int i = 0; i < times; i++) {
    bool resume = begun();
    int ms = 1 + rand_r(seed) % whole_ms, workers = 1 + rand_r(seed) % 4;
    run_for(ms, workers, signo, resume);
    if (p.status == 0) return i;
    if (p.status == 130 && !strstr(p.out, "--resume"))
      fail_msg("does not say how to resume: %s", p.out);
    if (p.status != 130 && p.status != -signo) /* Ctrl-C before the first step just ends it */
      fail_msg("status %d: %s%s", p.status, p.out, p.err);
  }
  if (begun())
    RUN(&p, "train", "--resume", "--run-dir", other);
  else
    RUN(&p, "train", "--graph", file, "--run-dir", other);
  return times;
}

static void ctrl_c_at_any_moment_changes_nothing(void **state) {
  unsigned seed = seed_of_today();
  disturb(SIGINT, 12, &seed);
  expect_as_whole();
}

static void kill_9_at_any_moment_changes_nothing(void **state) {
  const char *text = getenv("MR_TRAIN_KILLS"); /* scripts/elastic.sh wants more */
  unsigned seed = seed_of_today();
  int kills = 0, want = text ? atoi(text) : 1;
  do {
    remove_other(state);
    kills += disturb(SIGKILL, 20, &seed);
    expect_as_whole();
  } while (kills < want);
  print_message("%d kills: weights, metrics and ledger as the undisturbed run's\n", kills);
}

static void a_finished_run_resumed_stays_as_it_is(void **state) {
  RUN(&p, "train", "--graph", file, "--run-dir", other);
  RUN(&p, "train", "--resume", "--run-dir", other);
  expect_as_whole();
}

int main(void) {
#define CASE(f) cmocka_unit_test_teardown(f, remove_other)
  const struct CMUnitTest tests[] = {
      CASE(metrics_tell_every_step_once),         CASE(workers_do_not_change_ledger_or_weights),
      CASE(another_seed_has_another_ledger),      CASE(ctrl_c_at_any_moment_changes_nothing),
      CASE(kill_9_at_any_moment_changes_nothing), CASE(a_finished_run_resumed_stays_as_it_is),
  };
  return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
