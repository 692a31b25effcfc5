/* Runs whose settings change at resumes, with kills in between: what was delivered, as the ledger
   stage has it, is what who says of every step, and each source continues where it was.

   MR_TEST_SEED=S in the environment starts at that seed instead of 1, MR_ROUNDS=N runs N
   histories. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdbool.h>

#include "base/xio.h"
#include "tests/apps/program.h"

enum { ROUNDS = 10, CHANGES = 5, N = 96, N_MOST = 512, STEPS_MOST = 400, SLOTS_MOST = 64 };
enum { SOURCES = 3 };

/* A stream of two sources in which nothing is dropped, so that each source's records follow one
   another: the first shuffled or not, the second in its own order. */
typedef struct shape {
  const char *name, *text;
  bool in_order; /* the first source too */
  bool gains;    /* sources may get more records */
} shape_t;

#define SINKS                                                                                 \
  " ! normalize ! batch $batch across-epochs ! ledger path=$run/led ! train-step name=train " \
  "model=mlp hidden=4 threads=1 checkpoint-every=3\n"                                         \
  "train.metrics ! jsonl path=$run/metrics.jsonl\ntrain.state ! checkpoint dir=$run/checkpoints\n"
#define LETS "let run = unset\nlet batch = 8\nlet w = 1,1\n"

static const shape_t shapes[] = {
    {"mix by position",
     LETS "synthetic n=96 seed=1 name=a ! shuffle seed=3 epochs=0 name=sa ! m.a\n"
          "synthetic n=96 seed=2 name=b ! sequential epochs=0 name=sb ! m.b\n"
          "mix weights=$w name=m" SINKS,
     false, true},
    {"mix of walks",
     LETS "synthetic n=96 seed=1 name=a ! sequential epochs=0 name=sa ! to-iter-dataset name=ia ! "
          "m.a\n"
          "synthetic n=96 seed=2 name=b ! sequential epochs=0 name=sb ! to-iter-dataset name=ib ! "
          "m.b\n"
          "mix weights=$w name=m" SINKS,
     true, false},
    {"mix of a mix, flipped",
     LETS "synthetic n=96 seed=1 name=a ! sequential epochs=0 name=sa ! m.a\n"
          "synthetic n=96 seed=2 name=b ! sequential seed=6 epochs=0 name=sb ! inner.a\n"
          "synthetic n=96 seed=5 name=c ! shuffle seed=7 epochs=0 name=sc ! inner.b\n"
          "mix weights=2,3 name=inner ! flip ! m.b\nmix weights=$w name=m" SINKS,
     true, true},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static program_t p;
static char dir[64], file[96], run[96];
static unsigned drawn;

static int draw(int below) { return rand_r(&drawn) % below; }

static int make_folder_of_the_test(void **state) {
  strcpy(dir, "/tmp/mr-history-XXXXXX");
  setenv("OMP_NUM_THREADS", "1", 1);
  if (!mkdtemp(dir)) return -1;
  snprintf(file, sizeof file, "%s/g.mr", dir);
  snprintf(run, sizeof run, "%s/r", dir);
  return 0;
}

static int remove_folder_of_the_test(void **state) { return program_forget(dir); }

/* ---- what was delivered, and what who says ---- */

typedef struct delivered {
  int n;
  uint64_t key[SLOTS_MOST]; /* without the mark of an excluded record */
  bool excluded[SLOTS_MOST];
} delivered_t;

static delivered_t ledger[STEPS_MOST + 1], before[STEPS_MOST + 1];

static void read_ledger(void) {
  char path[128], line[256];
  memset(ledger, 0, sizeof ledger);
  snprintf(path, sizeof path, "%s/led", run);
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  while (fgets(line, sizeof line, f)) {
    int step, slot;
    uint64_t key;
    if (sscanf(line, "%d %d %" SCNu64, &step, &slot, &key) != 3 || step > STEPS_MOST) continue;
    assert_true(slot >= 0 && slot < SLOTS_MOST);
    delivered_t *d = &ledger[step];
    d->key[slot] = key & ~(UINT64_C(1) << 63), d->excluded[slot] = key >> 63;
    if (slot >= d->n) d->n = slot + 1;
  }
  fclose(f);
}

/* How many records each source has now, and had when a step was made. */
static int has[SOURCES], had[STEPS_MOST + 1][SOURCES];

/* What has passed of a source's epoch. */
typedef struct passed {
  int n;
  bool seen[N_MOST];
} passed_t;

/* Compares a step, and follows the sources. */
static void step_is_as_delivered(const char *history, int step, bool in_order, passed_t *source) {
  char number[16], *save = NULL;
  snprintf(number, sizeof number, "%d", step);
  RUN(&p, "who", run, "--step", number);
  if (p.status) fail_msg("%s: step %d: %s", history, step, p.err);
  const delivered_t *d = &ledger[step];
  int n = 0;
  for (char *line = strtok_r(p.out, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
    int slot, label;
    uint64_t key;
    char name[32];
    if (sscanf(line, "%d %" SCNu64 " %d %31s", &slot, &key, &label, name) != 4) continue;
    if (slot != n || slot >= d->n || key != d->key[slot] ||
        (strstr(line, "(excluded)") != NULL) != d->excluded[slot])
      fail_msg("%s: step %d, slot %d: who says %" PRIu64 ", the ledger %" PRIu64 ": %s", history,
               step, slot, key, slot < d->n ? d->key[slot] : 0, line);
    n++;
    passed_t *s = &source[name[0] - 'a'];
    int of = had[step][name[0] - 'a'];
    bool orderly = name[0] == 'b' || (name[0] == 'a' && in_order);
    if (key >= (uint64_t)of || s->seen[key] || (orderly && key != (uint64_t)s->n))
      fail_msg("%s: step %d, slot %d: %s has passed %d of %d records, and its record %" PRIu64
               " %s",
               history, step, slot, name, s->n, of, key,
               key < N_MOST && s->seen[key] ? "comes again" : "comes too soon");
    s->seen[key] = true;
    if (++s->n == of) *s = (passed_t){0};
  }
  if (n != d->n)
    fail_msg("%s: step %d: who says %d records, the ledger %d", history, step, n, d->n);
}

/* ---- a history ---- */

static int reported_steps(void) {
  char path[128];
  void *text;
  size_t n;
  int step, last = 0;
  snprintf(path, sizeof path, "%s/metrics.jsonl", run);
  if (access(path, F_OK) || mr_read_file(path, 1 << 26, &text, &n, NULL) < 0) return 0;
  for (const char *at = text; (at = strstr(at, "{\"kind\":\"step\",\"step\":")); at++)
    if (sscanf(at, "{\"kind\":\"step\",\"step\":%d", &step) == 1 && step > last) last = step;
  free(text);
  return last;
}

/* Runs on to a step; killed: as soon as it has got there, with more steps before it. */
static void run_on(const char *history, char words[][128], int n_words, int to, bool killed) {
  const char *all[16] = {"train", "--run-dir", run};
  char steps[32];
  int n = 3;
  for (int i = 0; i < n_words; i++) all[n++] = words[i];
  snprintf(steps, sizeof steps, "train.steps=%d", killed ? 1000000 : to);
  all[n] = steps;
  FILE *out = tmpfile(), *err = tmpfile();
  pid_t pid = program_start(all, out, err);
  bool ended = false;
  for (siginfo_t i; killed && !ended && reported_steps() < to; usleep(1000)) {
    i.si_pid = 0;
    ended = waitid(P_PID, (id_t)pid, &i, WEXITED | WNOHANG | WNOWAIT) == 0 && i.si_pid;
  }
  if (killed) kill(pid, SIGKILL);
  p.status = program_wait(pid);
  program_read(out, p.out, sizeof p.out), program_read(err, p.err, sizeof p.err);
  if (p.status != (killed ? 128 + SIGKILL : 0))
    fail_msg("%s: status %d: %s%s", history, p.status, p.out, p.err);
  int from = 0;
  const char *at = strstr(p.out, "resumed at step ");
  if (at) assert_int_equal(sscanf(at, "resumed at step %d", &from), 1);
  for (int step = from + 1; step <= STEPS_MOST; step++) memcpy(had[step], has, sizeof has);
}

/* A setting that changes, as words of a resume; returns how many. */
static int draw_change(const shape_t *shape, char words[][128]) {
  int n = 0;
  strcpy(words[n++], "--resume");
  int kind = draw(shape->gains ? 6 : 5), of = draw(2);
  if (kind == 0 || kind == 3) sprintf(words[n++], "batch=%d", 3 + draw(20));
  if (kind == 1 || kind == 3) sprintf(words[n++], "w=%d,%d", 1 + draw(5), 1 + draw(5));
  if (kind == 2) sprintf(words[n++], "%c.skip-records=%d,%d", 'a' + draw(2), draw(N), draw(N));
  if (kind == 4) sprintf(words[n++], "train.lr=%d", 1 + draw(3));
  if (kind == 5) sprintf(words[n++], "%c.n=%d", 'a' + of, has[of] += 1 + draw(40));
  strcpy(words[n++], "--allow-change=data,batch");
  return n;
}

static void one_history(unsigned seed) {
  const shape_t *shape = &shapes[seed % SHAPES];
  char history[64], words[8][128];
  drawn = seed;
  snprintf(history, sizeof history, "MR_TEST_SEED=%u, %s", seed, shape->name);
  program_forget(run);
  for (int i = 0; i < SOURCES; i++) has[i] = N;
  if (mr_write_file(file, shape->text, strlen(shape->text), NULL) < 0) fail_msg("%s", file);
  sprintf(words[0], "--graph=%s", file);
  int to = 1 + draw(6), changes = 1 + draw(CHANGES);
  run_on(history, words, 1, to, draw(3) == 0);
  for (int i = 0; i < changes; i++) {
    int n = draw_change(shape, words);
    to = reported_steps() + 1 + draw(6);
    bool last = i + 1 == changes;
    run_on(history, words, n, to, !last && draw(2));
  }
  read_ledger();
  passed_t source[SOURCES] = {0};
  for (int step = 1; step <= to && step <= STEPS_MOST; step++)
    step_is_as_delivered(history, step, shape->in_order, source);
  memcpy(before, ledger, sizeof before);
  read_ledger();
  if (memcmp(before, ledger, sizeof before)) fail_msg("%s: who has written the ledger", history);
}

static void random_histories_are_answered_as_they_were(void **state) {
  const char *given = getenv("MR_TEST_SEED"), *rounds = getenv("MR_ROUNDS");
  unsigned seed = given ? (unsigned)atoi(given) : 1;
  for (int i = 0; i < (rounds ? atoi(rounds) : ROUNDS); i++) one_history(seed + (unsigned)i);
}

/* Training and validation change places: what is held back now was trained on before. */
static void records_of_earlier_parts_are_no_validation(void **state) {
  static const char text[] = LETS
      "let train = :48\nlet held = 48:\n"
      "synthetic n=96 seed=1 name=a ! slice $train name=of-train ! "
      "sequential epochs=0 name=sa ! normalize ! batch $batch ! train-step name=train "
      "model=mlp hidden=4 threads=1\n"
      "synthetic n=96 seed=1 name=b ! slice $held name=of-held ! "
      "sequential epochs=0 name=sb ! normalize ! batch 16 name=held-batches ! train.valid\n"
      "train.metrics ! jsonl path=$run/metrics.jsonl\n"
      "train.state ! checkpoint dir=$run/checkpoints\n";
  program_forget(run);
  assert_int_equal(mr_write_file(file, text, sizeof text - 1, NULL), MR_OK);
  RUN(&p, "train", "--graph", file, "--run-dir", run, "train.steps=4");
  if (p.status) fail_msg("%s", p.err);
  RUN(&p, "train", "--run-dir", run, "--resume", "train.steps=8", "train=48:", "held=:48",
      "--allow-change=data");
  if (p.status != 2 || !strstr(p.err, "leak-check")) fail_msg("status %d: %s", p.status, p.err);
  RUN(&p, "train", "--run-dir", run, "--resume", "train.steps=8");
  if (p.status) fail_msg("%s", p.err);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(records_of_earlier_parts_are_no_validation,
                                      make_folder_of_the_test, remove_folder_of_the_test),
      cmocka_unit_test_setup_teardown(random_histories_are_answered_as_they_were,
                                      make_folder_of_the_test, remove_folder_of_the_test),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
