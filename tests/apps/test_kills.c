/* Graphs of several processes that are killed at random moments, the whole run now and then: every
   process that is left ends, and lines and weights are those of a run that was left alone.

   MR_TEST_SEED=S in the environment starts at that seed instead of 3, MR_ROUNDS=N runs N. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <time.h>

#include "tests/apps/processes.h"

enum { ROUNDS = 8, MOST_KILLS = 8, HANG_S = 240, PROCESSES = 16 };

/* A graph of copies=%d readers, and the files that tell its result; delay.us of a slow reader. */
typedef struct shape {
  const char *name, *text;
  int others; /* processes beside the readers */
  const char *result[3];
} shape_t;

static const shape_t shapes[] = {
    {"lines", /* batches of 15 do not divide by three, and an epoch's last one is short */
     "process reader restart=100 copies=%d {\n"
     "  synthetic n=1000 ! shuffle seed=1 epochs=2 ! flip ! batch 15 name=batches workers=2\n}\n"
     "process writer restart=100 { delay 0 asleep name=delay !\n"
     "  ledger path=$out.txt state=$out.json every=5 name=lines }\n"
     "batches. ! delay.\n",
     1,
     {".txt"}},
    {"walked", /* the state of the stream is more than a position */
     "process reader restart=100 copies=%d {\n"
     "  synthetic n=900 ! shuffle seed=2 epochs=2 ! filter 0,1,2,3,4,5 ! to-iter-dataset !\n"
     "  window-shuffle 20 seed=4 ! flip ! batch 15 name=batches\n}\n"
     "process writer restart=100 { delay 0 asleep name=delay !\n"
     "  ledger path=$out.txt state=$out.json every=5 name=lines }\n"
     "batches. ! delay.\n",
     1,
     {".txt"}},
    {"trained", /* two streams into one process, one of them without end */
     "process reader restart=100 copies=%d {\n"
     "  synthetic n=320 ! shuffle seed=1 epochs=4 ! flip ! normalize ! batch 16 name=batches\n"
     "  synthetic n=64 split=valid ! sequential epochs=0 ! normalize ! batch 32 name=held\n}\n"
     "process trainer restart=100 {\n"
     "  delay 0 asleep name=delay\n"
     "  vit-step name=train embed=16 mlp=32 heads=2 layers=1 patch=8 checkpoint-every=5\n"
     "  train.state ! checkpoint dir=$out.d\n}\n"
     "batches. ! delay.   delay. ! train.   held. ! train.valid\n",
     1,
     {".d/step-000080.safetensors"}},
    {"apart", /* two streams into two processes, of which one has finished long before the other */
     "process reader restart=100 copies=%d {\n"
     "  synthetic n=200 ! shuffle seed=3 epochs=1 ! flip ! batch 15 name=few\n"
     "  synthetic n=1000 ! shuffle seed=1 epochs=2 ! flip ! batch 15 name=many\n}\n"
     "process first restart=100 { ledger path=$out.few state=$out.few.json every=2 name=head }\n"
     "process second restart=100 { delay 0 asleep name=delay !\n"
     "  ledger path=$out.txt state=$out.json every=5 name=lines }\n"
     "few. ! head.   many. ! delay.\n",
     2,
     {".txt", ".few"}}};

enum { APART = 3, SHAPES = sizeof shapes / sizeof *shapes };

/* A run under torment. */
typedef struct torment {
  const shape_t *shape;
  unsigned seed, random;
  bool slow; /* the run takes a second, not a fraction of one, and so do the pauses */
  char name[32], path[TEXT_MAX], delay[32];
  running_t run;
  int processes;         /* of the whole graph */
  int left, last;        /* kills at random moments that are left, and as processes end */
  int kills, resumes;    /* processes killed, and how often the whole run */
  struct timespec quiet; /* when it was last started or disturbed */
} torment_t;

static int draw(torment_t *t, int below) { return rand_r(&t->random) % below; }

static void write_shape(const shape_t *shape, const char *name, int copies, char *path) {
  char text[TEXT_MAX];
  snprintf(text, sizeof text, shape->text, copies);
  write_graph(name, text, path);
}

static void begin(torment_t *t, bool resume) {
  t->run = start((const char *const[]){"run", t->path, t->delay, resume ? "--resume" : NULL, NULL});
  clock_gettime(CLOCK_MONOTONIC, &t->quiet);
}

/* Ends what is left of a run that hangs, and tells which processes these were. */
static void give_up(torment_t *t) {
  pid_t pid[PROCESSES];
  char list[1024] = "", path[64], words[512];
  for (int i = 0, n = find("--process=", t->path, pid); i < n; i++) {
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid[i]);
    FILE *f = fopen(path, "r");
    size_t len = f ? fread(words, 1, sizeof words - 1, f) : 0;
    if (f) fclose(f);
    words[len] = 0;
    for (size_t k = 0; k < len; k += strlen(words + k) + 1)
      if (!strncmp(words + k, "--process=", 10) && strlen(list) + strlen(words + k) < 900)
        strcat(strcat(list, " "), words + k + 10);
    kill(pid[i], SIGKILL);
  }
  kill(t->run.pid, SIGKILL);
  finish(&t->run);
  fail_msg("MR_TEST_SEED=%u: %s has not ended %d s after kill %d; still there:%s; it said: %s",
           t->seed, t->shape->name, HANG_S, t->kills, list, t->run.p->err);
}

static void check_for_hang(torment_t *t) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (now.tv_sec - t->quiet.tv_sec > HANG_S) give_up(t);
}

/* Moments of all scales: while processes start, meet, send, or are about to end. */
static void pause_at_random(torment_t *t) {
  static const int most_ms[2][6] = {{2, 20, 60, 120, 200, 300}, {1, 10, 60, 200, 400, 800}};
  usleep((unsigned)draw(t, most_ms[t->slow][draw(t, 6)] * 1000) + 1);
}

/* As if the host had lost its power, and the run was resumed after that. */
static void kill_all(torment_t *t) {
  kill(t->run.pid, SIGKILL);
  finish(&t->run);
  pid_t pid[PROCESSES];
  while (find("--process=", t->path, pid)) usleep(2000), check_for_hang(t);
  if (t->run.p->status != 128 + SIGKILL && t->run.p->status)
    fail_msg("MR_TEST_SEED=%u: %s: %s", t->seed, t->shape->name, t->run.p->err);
  free(t->run.p);
  begin(t, true);
  t->resumes++;
}

/* Of at most `below` processes that are there, one. */
static bool kill_one(torment_t *t, int below) {
  pid_t pid[PROCESSES];
  int n = find("--process=", t->path, pid);
  if (!n || n > below || kill(pid[draw(t, n)], SIGKILL)) return false;
  t->kills++;
  clock_gettime(CLOCK_MONOTONIC, &t->quiet);
  return true;
}

/* Until the run has ended by itself; kills at random moments come first, then those of processes
   whose neighbours have ended. */
static void end_run(torment_t *t) {
  while (runs(&t->run)) {
    if (t->left) {
      pause_at_random(t);
      if (draw(t, 15) == 0)
        kill_all(t), t->left--;
      else
        t->left -= kill_one(t, t->processes);
    } else {
      usleep(t->last ? 500 : 5000);
      if (t->last && kill_one(t, t->processes - 1)) t->last--, pause_at_random(t);
    }
    check_for_hang(t);
  }
  finish(&t->run);
  if (t->run.p->status)
    fail_msg("MR_TEST_SEED=%u: %s failed after %d kills: %s", t->seed, t->shape->name, t->kills,
             t->run.p->err);
}

static void same_result(const torment_t *t) {
  char a[TEXT_MAX], b[TEXT_MAX];
  void *x, *y;
  size_t n, m;
  for (int i = 0; i < 3 && t->shape->result[i]; i++) {
    mr_diag_t why = {0};
    snprintf(a, sizeof a, "%s/calm-%s%s", dir, t->shape->name, t->shape->result[i]);
    snprintf(b, sizeof b, "%s/%s%s", dir, t->name, t->shape->result[i]);
    if (mr_read_file(a, 1 << 28, &x, &n, &why) < 0 || mr_read_file(b, 1 << 28, &y, &m, &why) < 0)
      fail_msg("MR_TEST_SEED=%u: %s", t->seed, why.text);
    if (n != m || memcmp(x, y, n) != 0)
      fail_msg("MR_TEST_SEED=%u: %s after %d kills and %d resumes: %zu and %zu bytes differ in %s",
               t->seed, t->shape->name, t->kills, t->resumes, n, m, t->shape->result[i]);
    free(x), free(y);
  }
  free(t->run.p);
}

static void leave_alone(const shape_t *shape) {
  char name[32], path[TEXT_MAX];
  snprintf(name, sizeof name, "calm-%s", shape->name);
  write_shape(shape, name, 1, path);
  running_t r = start((const char *const[]){"run", path, NULL});
  finish(&r);
  if (r.p->status) fail_msg("%s", r.p->err);
  free(r.p);
}

static void forget(const torment_t *t) {
  char command[256];
  snprintf(command, sizeof command, "rm -rf '%s/%s'.*", dir, t->name);
  assert_int_equal(system(command), 0);
}

static void processes_killed_at_random_moments_change_nothing(void **state) {
  const char *given = getenv("MR_TEST_SEED"), *rounds = getenv("MR_ROUNDS");
  unsigned first = given ? (unsigned)strtoul(given, NULL, 10) : 3;
  unsigned n = rounds ? (unsigned)strtoul(rounds, NULL, 10) : ROUNDS;
  int kills = 0, resumes = 0;
  for (unsigned seed = first; seed < first + n; seed++) {
    torment_t t = {.shape = &shapes[seed % SHAPES], .seed = seed, .random = seed};
    t.left = 3 + draw(&t, MOST_KILLS - 2), t.last = 1 + draw(&t, 3);
    snprintf(t.name, sizeof t.name, "kills-%u", seed);
    t.slow = draw(&t, 2);
    snprintf(t.delay, sizeof t.delay, "delay.us=%d", t.slow ? 2000 + draw(&t, 10000) : 0);
    int copies = 2 + draw(&t, 2);
    t.processes = copies + t.shape->others;
    write_shape(t.shape, t.name, copies, t.path);
    begin(&t, false);
    end_run(&t);
    same_result(&t);
    forget(&t);
    kills += t.kills, resumes += t.resumes;
    if (rounds)
      print_message("seed %u: %s, %d kills, %d resumes\n", seed, t.shape->name, t.kills, t.resumes);
  }
  print_message("%d kills and %d resumes\n", kills, resumes);
  assert_true(kills > 0);
}

/* Waits until `first` has been there and is gone, then kills `second`.  False: that one had ended
   before. */
static bool kill_second_after_first(torment_t *t) {
  pid_t pid[PROCESSES];
  bool seen = false, gone = false;
  while (!gone && runs(&t->run)) {
    bool there = find("--process=first", t->path, pid) > 0;
    gone = seen && !there, seen = seen || there;
    check_for_hang(t);
  }
  return find("--process=second", t->path, pid) == 1 && kill(pid[0], SIGKILL) == 0;
}

/* The readers start both streams anew, and the peer of one of them never comes again. */
static void a_process_that_has_finished_is_not_waited_for(void **state) {
  torment_t t = {.shape = &shapes[APART], .name = "finished"};
  bool killed = false;
  for (int us = 4000; !killed && us < 1000000; us *= 2) { /* slower, until the moment is met */
    snprintf(t.delay, sizeof t.delay, "delay.us=%d", us);
    write_shape(t.shape, t.name, 3, t.path);
    begin(&t, false);
    killed = kill_second_after_first(&t);
    end_run(&t);
    same_result(&t);
    forget(&t);
  }
  assert_true(killed);
}

static int setup_calm(void **state) {
  if (setup(state)) return -1;
  for (int i = 0; i < SHAPES; i++) leave_alone(&shapes[i]);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_process_that_has_finished_is_not_waited_for),
      cmocka_unit_test(processes_killed_at_random_moments_change_nothing),
  };
  setenv("OMP_WAIT_POLICY", "passive", 0);
  return cmocka_run_group_tests(tests, setup_calm, teardown);
}
