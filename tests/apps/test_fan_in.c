/* Several readers, one trainer: the order, the ledger and the weights of a single process, also
   when readers and trainer are killed, and over sockets that only hold together with the right
   keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/apps/processes.h"

/* Batches of 15 do not divide by three, and an epoch's last one is short. */
static const char lines[] =
    "process reader restart=100 copies=%d {\n"
    "  synthetic n=1000 ! shuffle seed=1 epochs=2 ! flip ! batch 15 name=batches workers=2\n}\n"
    "process writer restart=100 { delay 4 name=delay !\n"
    "  ledger path=$out.txt state=$out.json every=5 name=lines }\n"
    "batches. ! delay.\n";

/* Records that are filtered and walked: their state is more than a position. */
static const char walked[] =
    "process reader restart=100 copies=%d {\n"
    "  synthetic n=900 ! shuffle seed=2 epochs=2 ! filter 0,1,2,3,4,5 ! to-iter-dataset !\n"
    "  window-shuffle 20 seed=4 ! flip ! batch 15 name=batches\n}\n"
    "process writer restart=100 { delay 4 name=delay !\n"
    "  ledger path=$out.txt state=$out.json every=5 name=lines }\n"
    "batches. ! delay.\n";

static const char training[] =
    "process reader restart=100 copies=%d {\n"
    "  synthetic n=320 ! shuffle seed=1 epochs=4 ! flip ! normalize ! batch 16 name=batches\n"
    "  synthetic n=64 split=valid ! sequential epochs=0 ! normalize ! batch 32 name=held\n}\n"
    "process trainer restart=100 {\n"
    "  delay 0 asleep name=delay\n"
    "  vit-step name=train embed=16 mlp=32 heads=2 layers=1 patch=8 checkpoint-every=5\n"
    "  train.state ! checkpoint dir=$out.d\n}\n"
    "batches. ! delay.   delay. ! train.   held. ! train.valid\n";

static void write_copies(const char *name, const char *text, int copies, char *path) {
  char whole[TEXT_MAX];
  snprintf(whole, sizeof whole, text, copies);
  write_graph(name, whole, path);
}

static running_t begin(const char *name, const char *text, int copies) {
  char path[TEXT_MAX];
  write_copies(name, text, copies, path);
  return start((const char *const[]){"run", path, NULL});
}

static void undisturbed(const char *name, const char *text, running_t *r) {
  *r = begin(name, text, 1);
  finish(r);
  if (r->p->status) fail_msg("%s", r->p->err);
}

static void shaken(const char *name, const char *text, const char *const *process, running_t *r) {
  char path[TEXT_MAX];
  *r = begin(name, text, 3);
  snprintf(path, sizeof path, "%s/%s.mr", dir, name);
  int done = disturb(r, path, process);
  finish(r);
  if (r->p->status) fail_msg("after %d kills: %s", done, r->p->err);
  assert_true(done > 0);
}

static void same_files(const char *a, const char *b, const char *end) {
  char *x = file_of(a, end), *y = file_of(b, end);
  assert_string_equal(x, y);
  free(x), free(y);
}

static void lines_of_three_readers_are_those_of_one(void **state) {
  running_t one, three = begin("three", lines, 3);
  finish(&three);
  if (three.p->status) fail_msg("%s", three.p->err);
  undisturbed("one", lines, &one);
  same_files("one", "three", ".txt");
  free(one.p), free(three.p);
}

static void batches_of_another_size_are_cut_where_they_are_made(void **state) {
  static const char graph[] =
      "process reader copies=%d { synthetic n=200 ! shuffle seed=1 epochs=1 ! batch 16 ! "
      "rebatch 10 name=batches }\nprocess writer { ledger path=$out.txt name=lines }\n"
      "batches. ! lines.\n";
  running_t one, two = begin("two", graph, 2);
  finish(&two);
  if (two.p->status) fail_msg("%s", two.p->err);
  undisturbed("one", graph, &one);
  same_files("one", "two", ".txt");
  free(one.p), free(two.p);
}

static void readers_that_die_and_come_back_change_no_line(void **state) {
  static const char *const all[] = {"--process=reader-1", "--process=writer", "--process=reader-0",
                                    "--process=reader-2", NULL};
  const char *const text[] = {lines, walked};
  for (int i = 0; i < 2; i++) {
    running_t one, three;
    undisturbed("calm", text[i], &one);
    shaken("shaken", text[i], all, &three);
    same_files("calm", "shaken", ".txt");
    free(one.p), free(three.p);
  }
}

static void a_trainer_of_three_readers_ends_with_the_same_weights(void **state) {
  static const char *const all[] = {"--process=reader-1", "--process=trainer", NULL};
  running_t one, three;
  char a[24], b[24];
  undisturbed("t1", training, &one);
  shaken("t3", training, all, &three);
  ledger_line(one.p->out, "train: ", a);
  ledger_line(three.p->out, "train: ", b);
  assert_string_equal(a, b);
  char *x = file_of("t1", ".d/step-000080.safetensors");
  char *y = file_of("t3", ".d/step-000080.safetensors");
  assert_memory_equal(x, y, 4000);
  free(x), free(y), free(one.p), free(three.p);
}

/* Until there is another newest checkpoint than seen, which then is it, or the run is over. */
static void wait_for_checkpoint(const running_t *r, const char *name, char seen[64]) {
  char path[TEXT_MAX], now[64];
  snprintf(path, sizeof path, "%s/%s.d/latest", dir, name);
  for (ssize_t n = -1; runs(r); usleep(5000)) {
    if ((n = readlink(path, now, sizeof now - 1)) > 0) now[n] = 0;
    if (n <= 0 || !strcmp(now, seen)) continue;
    memcpy(seen, now, sizeof now);
    return;
  }
}

/* All processes at once, the supervisor first: as if the host had lost its power, twice.  False: a
   run was over before. */
static bool dies_twice(const char *name, const char *delay) {
  char path[TEXT_MAX], seen[64] = "";
  bool killed = true;
  write_copies(name, training, 3, path);
  running_t r = start((const char *const[]){"run", path, delay, NULL});
  for (int i = 0; i < 2 && killed; i++) {
    wait_for_checkpoint(&r, name, seen);
    kill(r.pid, SIGKILL);
    finish(&r);
    killed = r.p->status == 128 + SIGKILL;
    if (!killed && r.p->status) fail_msg("%s", r.p->err);
    wait_until_gone(path);
    free(r.p);
    if (!i && killed) r = start((const char *const[]){"run", path, "--resume", delay, NULL});
  }
  return killed;
}

static void a_host_that_dies_resumes_from_the_last_checkpoint(void **state) {
  char name[32], delay[32], path[TEXT_MAX], a[24], b[24];
  running_t calm, on;
  undisturbed("calm-host", training, &calm);
  bool killed = false;
  for (int us = 5000; !killed && us < 5000000; us *= 4) { /* slower, until both moments are met */
    snprintf(name, sizeof name, "host-%d", us);
    snprintf(delay, sizeof delay, "delay.us=%d", us);
    killed = dies_twice(name, delay);
  }
  assert_true(killed);
  snprintf(path, sizeof path, "%s/%s.mr", dir, name);
  on = start((const char *const[]){"run", path, "--resume", "reader.copies=2", NULL});
  finish(&on);
  if (on.p->status) fail_msg("%s", on.p->err);
  ledger_line(calm.p->out, "train: ", a);
  ledger_line(on.p->out, "train: ", b);
  assert_string_equal(a, b);
  char *x = file_of("calm-host", ".d/step-000080.safetensors");
  char *y = file_of(name, ".d/step-000080.safetensors");
  assert_memory_equal(x, y, 4000);
  free(x), free(y), free(calm.p), free(on.p);
}

static void stages_that_cannot_be_copied_are_refused(void **state) {
  static const char *const bad[][2] = {
      {"synthetic ! batch 4 name=x ! null", "it contains null"},
      {"synthetic ! batch 4 host=0/2 name=x", "host= is what copies set"},
  };
  static const char *const bad_graph[][2] = {
      {"process a copies=2 address=tcp://127.0.0.1:5999 { synthetic ! batch 4 name=x }\n"
       "process b { null name=y }\nx. ! y.",
       "several processes cannot wait at one address"},
      {"process a { synthetic ! batch 4 name=x }\nprocess b copies=2 { delay 1 name=m }\n"
       "process c { null name=y }\nx. ! m. m. ! y.",
       "it takes buffers from x"},
      {"process a copies=1025 { synthetic ! batch 4 name=x }\nprocess b { null name=y }\nx. ! y.",
       "in [1,1024] of processes"},
      {"process a copies=300 { synthetic ! batch 512 name=x }\nprocess b { null name=y }\nx. ! y.",
       "processes, each of copies= counted; want at most 256"}};
  program_t *p = calloc(1, sizeof *p);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char graph[TEXT_MAX];
    snprintf(graph, sizeof graph, "process a copies=2 { %s }\nprocess b { null name=y }\n%s",
             bad[i][0], "x. ! y.");
    RUN(p, "run", graph);
    assert_int_equal(p->status, 2);
    if (!strstr(p->err, bad[i][1])) fail_msg("%s: %s", graph, p->err);
  }
  for (size_t i = 0; i < sizeof bad_graph / sizeof *bad_graph; i++) {
    RUN(p, "run", bad_graph[i][0]);
    assert_int_equal(p->status, 2);
    if (!strstr(p->err, bad_graph[i][1])) fail_msg("%s: %s", bad_graph[i][0], p->err);
  }
  free(p);
}

/* Without process blocks: slices of one batch, or what only looks so. */
static void gather_takes_slices_of_one_batch_and_nothing_else(void **state) {
#define HALF(I, N, MORE) "synthetic n=100 ! shuffle seed=1 epochs=1 ! batch 16 host=" #I "/" #N MORE
  static const char *const bad[][2] = {
      {HALF(1, 2, " ! g.a ") HALF(0, 2, " ! g.b") " gather name=g ! null",
       "want host=I/N of one batch at inputs a, b, ... in the order of I"},
      {HALF(0, 2, " ! g.a ") HALF(0, 2, " ! g.b") " gather name=g ! null",
       "slots from 0 on came at input b after those up to 8"},
      {HALF(0, 2, " ! g.a ") "synthetic n=50 ! shuffle seed=1 epochs=1 ! batch 16 host=1/2 ! g.b "
                             "gather name=g ! null",
       "inputs a and b are not slices of the same batches"},
      {HALF(0, 2, " ! g.a ") HALF(1, 2, " ! g.c") " gather name=g ! null",
       "input c is connected, but b is not"},
      {HALF(0, 2, " ! g.a ") HALF(1, 2, " ! g.b") " gather 17 name=g ! null",
       "setting size = 17: the slices have at most 16 records together"}};
  program_t *p = calloc(1, sizeof *p);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    RUN(p, "run", bad[i][0]);
    assert_int_not_equal(p->status, 0);
    if (!strstr(p->err, bad[i][1])) fail_msg("%s: %s", bad[i][0], p->err);
  }
  RUN(p, "run", HALF(0, 2, " ! g.a ") HALF(1, 2, " ! g.b") " gather name=g ! ledger");
  if (p->status) fail_msg("%s", p->err);
  assert_non_null(strstr(p->out, "up to step 7, 100 records"));
  free(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lines_of_three_readers_are_those_of_one),
      cmocka_unit_test(batches_of_another_size_are_cut_where_they_are_made),
      cmocka_unit_test(readers_that_die_and_come_back_change_no_line),
      cmocka_unit_test(a_trainer_of_three_readers_ends_with_the_same_weights),
      cmocka_unit_test(a_host_that_dies_resumes_from_the_last_checkpoint),
      cmocka_unit_test(gather_takes_slices_of_one_batch_and_nothing_else),
      cmocka_unit_test(stages_that_cannot_be_copied_are_refused),
  };
  setenv("OMP_WAIT_POLICY", "passive", 0);
  return cmocka_run_group_tests(tests, setup, teardown);
}
