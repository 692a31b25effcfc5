/* train in a job of several processes, over ZeroMQ, as a launcher would start them: the checkpoint
   and ledger of one process, stops that all ranks make together, ranks that die or do not fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <sys/stat.h>

#include "base/safetensors.h"
#include "tests/apps/job.h"

enum { STEPS = 6 };

/* Batches of 18 records, in 8 parts of 3 and of 2. */
static const char graph[] =
    "let run = unset\n"
    "synthetic n=40 split=train ! shuffle seed=1 epochs=3 ! flip p=0.5 ! normalize preset=cifar10\n"
    "  ! batch 18 drop-remainder\n"
    "  ! train-step name=train model=vit layers=1 embed=16 mlp=16 heads=2 dropout=0.2 ema=0.75\n"
    "      clip-norm=0.5 loss-scale=dynamic lr=1e-2 threads=1 ordered=8 checkpoint-every=2 "
    "leak-check=off\n"
    "synthetic n=32 split=test ! sequential epochs=1 ! normalize preset=cifar10\n"
    "  ! batch 16 ! train.test\n"
    "synthetic n=20 split=test name=held ! sequential epochs=1 ! normalize preset=cifar10\n"
    "  ! batch 16 ! train.valid\n"
    "train.metrics ! progress\n"
    "train.metrics ! jsonl path=$run/metrics.jsonl\n"
    "train.state ! checkpoint dir=$run/checkpoints keep=0\n";

static char whole_end[256]; /* the ledger of the run of one process */

static int group_setup(void **state) {
  unsetenv("MILLRACE_SECRET");
  int status = small_run("job", graph);
  if (!status) keep_ledger(p.out, whole_end, sizeof whole_end);
  return status;
}

/* ---- the same run ---- */

static void a_job_ends_with_the_checkpoints_and_ledger_of_one_process(void **state) {
  for (int size = 2; size <= RANKS_MOST; size++) {
    char run[128], ledger[sizeof whole_end];
    snprintf(run, sizeof run, "%s/job%d", dir, size);
    START(size, NULL, "train", "--graph", file, "--run-dir", run);
    end_job();
    assert_all_end_well();
    keep_ledger(job.said[0], ledger, sizeof ledger);
    assert_string_equal(ledger, whole_end);
    for (int step = 2; step <= STEPS; step += 2) assert_same_checkpoint(whole, run, step);
    for (int r = 1; r < size; r++) assert_string_equal(job.said[r], "");
  }
}

/* Rank 0 evaluates alone, and the others learn from it that the run ends. */
static void a_job_ends_early_where_one_process_does(void **state) {
  char one[128], run[128], ledger[2][64];
  snprintf(one, sizeof one, "%s/settled", dir);
  snprintf(run, sizeof run, "%s/settled-job", dir);
#define SETTLES "validate-every=1", "stop-after=2", "stop-by=valid/loss", "stop-delta=9"
  RUN(&p, "train", "--graph", file, "--run-dir", one, SETTLES);
  if (p.status) fail_msg("%s%s", p.out, p.err);
  keep_ledger(p.out, ledger[0], sizeof ledger[0]);
  assert_non_null(strstr(p.out, "ended early: valid/loss was best at step 1"));
  START(3, NULL, "train", "--graph", file, "--run-dir", run, SETTLES);
  end_job();
  assert_all_end_well();
  if (!strstr(job.said[0], "ended early: valid/loss was best at step 1"))
    fail_msg("%s", job.said[0]);
  keep_ledger(job.said[0], ledger[1], sizeof ledger[1]);
  assert_string_equal(ledger[0], ledger[1]);
  assert_same_checkpoint(one, run, 3);
  START(2, NULL, "train", "--run-dir", run, "--resume"); /* it stays so */
  end_job();
  assert_all_end_well();
}

/* By a clock that is always over: after each step, with the bits of one process.  Each rank has a
   clock of its own, and that of rank 0 holds. */
static void a_job_validates_and_keeps_states_by_the_clock(void **state) {
  static const char *const settings[] = {"train.validate-minutes=1e-9",
                                         "train.checkpoint-minutes=1e-9"};
  for (int i = 0; i < 2; i++) {
    char one[128], run[128], lines[192], ledger[2][64];
    void *bytes;
    size_t n;
    snprintf(one, sizeof one, "%s/clock%d", dir, i);
    snprintf(run, sizeof run, "%s/clock%d-job", dir, i);
    RUN(&p, "train", "--graph", file, "--run-dir", one, settings[i], "train.checkpoint-every=0");
    if (p.status) fail_msg("%s%s", p.out, p.err);
    keep_ledger(p.out, ledger[0], sizeof ledger[0]);
    START(3, NULL, "train", "--graph", file, "--run-dir", run, settings[i],
          "train.checkpoint-every=0", i ? "train.zero=1" : "train.zero=0");
    end_job();
    assert_all_end_well();
    keep_ledger(job.said[0], ledger[1], sizeof ledger[1]);
    assert_string_equal(ledger[0], ledger[1]);
    for (int step = 1; step <= STEPS; step++) assert_same_checkpoint(one, run, step);
    snprintf(lines, sizeof lines, "%s/metrics.jsonl", run);
    assert_int_equal(mr_read_file(lines, 1 << 20, &bytes, &n, NULL), MR_OK);
    const char *first = strstr(bytes, i ? "\"valid\",\"step\":2," : "\"valid\",\"step\":1,");
    if (!first) fail_msg("%.*s", (int)n, (char *)bytes); /* an epoch has two steps */
    free(bytes);
  }
}

static bool has_checkpoint(const char *run) { return newest_step(run) >= 0; }

/* Engines send the signal to all tasks of a job, or to one. */
static void any_rank_may_be_asked_for_a_checkpoint(void **state) {
  for (int asked = 0; asked < 2; asked++) {
    char run[128], lines[192];
    struct stat is = {0};
    snprintf(run, sizeof run, "%s/asked%d", dir, asked);
    snprintf(lines, sizeof lines, "%s/metrics.jsonl", run);
    START(2, NULL, "train", "--graph", file, "--run-dir", run, "shuffle.epochs=100000",
          "train.checkpoint-every=0", "train.checkpoint-minutes=0", "train.validate-every=0");
    siginfo_t ended = {0};
#define JOB_RUNS \
  (waitid(P_PID, (id_t)job.pid[0], &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && !ended.si_pid)
    while (JOB_RUNS && (stat(lines, &is) < 0 || !is.st_size)) usleep(2000);
    int before = newest_step(run);
    kill(job.pid[asked], SIGUSR1);
    while (JOB_RUNS && newest_step(run) == before) usleep(2000);
    for (int r = 0; r < 2; r++) kill(job.pid[r], SIGTERM);
    end_job();
    for (int r = 0; r < 2; r++)
      if (job.status[r] != 143)
        fail_msg("rank %d: status %d: %s%s", r, job.status[r], job.said[r], job.complained[r]);
    assert_null(strstr(job.complained[1], "nothing here"));
    assert_true(has_checkpoint(run));
  }
}

static void a_job_resumes_on_other_processes_and_on_threads(void **state) {
  char ledger[sizeof whole_end];
  START(4, NULL, "train", "--graph", file, "--run-dir", other, "train.steps=1");
  end_job();
  assert_all_end_well();
  START(3, NULL, "train", "--run-dir", other, "--resume", "train.steps=3");
  end_job();
  assert_all_end_well();
  if (!strstr(job.said[0], "shard-to-device.mesh: data=4 -> data=3")) fail_msg("%s", job.said[0]);
  if (strstr(job.complained[0], "cannot be built again")) fail_msg("%s", job.complained[0]);
  RUN(&p, "train", "--run-dir", other, "--resume", "train.steps=4");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  START(2, NULL, "train", "--run-dir", other, "--resume", "train.steps=0");
  end_job();
  assert_all_end_well();
  keep_ledger(job.said[0], ledger, sizeof ledger);
  assert_string_equal(ledger, whole_end);
  assert_same_checkpoint(whole, other, STEPS);
}

/* Processes that keep slots of their shares alone, or values too: checkpoints, evaluations by the
   average, steps without records where a checkpoint or an epoch ends, gradients that are looked at.
 */
static void processes_with_shares_of_slots_end_as_one_process(void **state) {
  static const char *const settings[] = {"train.lr=2e-2", "batch.skip-steps=4,5",
                                         "train.watch-every=2"};
  static const char *const zero[] = {"train.zero=1", "train.zero=1", "train.zero=2"};
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
    char one[128], run[128], ledger[2][64];
    snprintf(one, sizeof one, "%s/shares%zu", dir, i);
    RUN(&p, "train", "--graph", file, "--run-dir", one, "train.checkpoint-every=1", settings[i]);
    if (p.status) fail_msg("%s%s", p.out, p.err);
    keep_ledger(p.out, ledger[0], sizeof ledger[0]);
    for (int values = 0; values < 2; values++) {
      snprintf(run, sizeof run, "%s/shares%zu-job%d", dir, i, values);
      START((values ? 4 : 2) + (values ? -(int)i : (int)i), NULL, "train", "--graph", file,
            "--run-dir", run, values ? "train.zero=3" : zero[i], "train.checkpoint-every=1",
            settings[i]);
      end_job();
      assert_all_end_well();
      keep_ledger(job.said[0], ledger[1], sizeof ledger[1]);
      assert_string_equal(ledger[0], ledger[1]);
      for (int step = 1; step <= STEPS; step++) assert_same_checkpoint(one, run, step);
    }
  }
}

static void a_job_resumes_with_another_zero(void **state) {
  char run[128], ledger[sizeof whole_end];
  snprintf(run, sizeof run, "%s/zero", dir);
  START(4, NULL, "train", "--graph", file, "--run-dir", run, "train.steps=1", "train.zero=1");
  end_job();
  assert_all_end_well();
  START(3, NULL, "train", "--run-dir", run, "--resume", "train.steps=3", "train.zero=0");
  end_job();
  assert_all_end_well();
  RUN(&p, "train", "--run-dir", run, "--resume", "--mesh", "data=5", "train.steps=4",
      "train.zero=1");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  START(3, NULL, "train", "--run-dir", run, "--resume", "train.steps=5", "train.zero=3");
  end_job();
  assert_all_end_well();
  START(2, NULL, "train", "--run-dir", run, "--resume", "train.steps=0", "train.zero=2");
  end_job();
  assert_all_end_well();
  keep_ledger(job.said[0], ledger, sizeof ledger);
  assert_string_equal(ledger, whole_end);
  assert_same_checkpoint(whole, run, STEPS);
}

/* ---- a file of each rank ---- */

/* Changes a byte of a file, counted from its end, and once more makes it as it was. */
static void damage_at(const char *path, long from_end) {
  FILE *f = fopen(path, "r+b");
  assert_non_null(f);
  fseek(f, from_end, SEEK_END);
  int byte = fgetc(f);
  fseek(f, from_end, SEEK_END);
  fputc(byte ^ 1, f);
  assert_int_equal(fclose(f), 0);
}

static int slices_in(const char *run, int step) {
  char folder[160], stem[32];
  int n = 0;
  snprintf(folder, sizeof folder, "%s/checkpoints", run);
  snprintf(stem, sizeof stem, "step-%06d", step);
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d));) n += mr_safetensors_is_slice(e->d_name, stem);
  if (d) closedir(d);
  return n;
}

/* Finds the slice of a rank, into path. */
static void slice_of(const char *run, int step, int rank, char path[256]) {
  char folder[160], begin[48];
  snprintf(folder, sizeof folder, "%s/checkpoints", run);
  snprintf(begin, sizeof begin, "step-%06d.%d-of-", step, rank);
  *path = 0;
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d));)
    if (!strncmp(e->d_name, begin, strlen(begin)))
      snprintf(path, 256, "%s/%.90s", folder, e->d_name);
  if (d) closedir(d);
  if (!*path) fail_msg("no slice of rank %d in %s", rank, folder);
}

static void assert_merges_to(const char *run, const char *one, int step) {
  char path[192], merged[128];
  void *bytes[2];
  size_t n[2];
  snprintf(path, sizeof path, "%s/checkpoints/step-%06d.safetensors", run, step);
  snprintf(merged, sizeof merged, "%s/merged.safetensors", dir);
  RUN(&p, "checkpoint", "merge", path, "--out", merged);
  if (p.status) fail_msg("%s%s", p.out, p.err);
  snprintf(path, sizeof path, "%s/checkpoints/step-%06d.safetensors", one, step);
  if (mr_read_file(merged, 1 << 24, &bytes[0], &n[0], NULL) < 0) fail_msg("no %s", merged);
  if (mr_read_file(path, 1 << 24, &bytes[1], &n[1], NULL) < 0) fail_msg("no %s", path);
  if (n[0] != n[1] || memcmp(bytes[0], bytes[1], n[0]) != 0) fail_msg("%s: another file", path);
  free(bytes[0]), free(bytes[1]);
}

/* With an average of the weights, which evaluations read, and without; of ranks that keep their
   shares alone, and of those that have all. */
static void slices_of_ranks_are_merged_to_the_checkpoint_of_one_process(void **state) {
  static const char *const ema[] = {"train.ema=0.75", "train.ema=0", "train.ema=0.75",
                                    "train.ema=0.75", "train.ema=0"};
  static const char *const zero[] = {"train.zero=2", "train.zero=1", "train.zero=0", "train.zero=3",
                                     "train.zero=3"};
  for (int i = 0; i < 5; i++) {
    char one[128], run[128], ledger[2][64];
    snprintf(one, sizeof one, "%s/files%d", dir, i);
    snprintf(run, sizeof run, "%s/files%d-job", dir, i);
    RUN(&p, "train", "--graph", file, "--run-dir", one, ema[i]);
    if (p.status) fail_msg("%s%s", p.out, p.err);
    keep_ledger(p.out, ledger[0], sizeof ledger[0]);
    START(3, NULL, "train", "--graph", file, "--run-dir", run, zero[i],
          "train.checkpoint-files=ranks", ema[i]);
    end_job();
    assert_all_end_well();
    keep_ledger(job.said[0], ledger[1], sizeof ledger[1]);
    assert_string_equal(ledger[0], ledger[1]);
    for (int step = 2; step <= STEPS; step += 2) {
      assert_int_equal(slices_in(run, step), 2);
      assert_merges_to(run, one, step);
    }
    RUN(&p, "checkpoint", "verify", run);
    if (p.status || !strstr(p.out, " in 3 files, each has its hash"))
      fail_msg("%s%s", p.out, p.err);
  }
}

/* On another number of processes, which write slices too, by another zero=, and in one process;
   what no file names any more is removed. */
static void slices_of_ranks_are_resumed_by_any_number_of_processes(void **state) {
  char run[128], latest[160], evaluated[2][64], ledger[sizeof whole_end];
  snprintf(run, sizeof run, "%s/resumed", dir);
  START(4, NULL, "train", "--graph", file, "--run-dir", run, "train.steps=1", "train.zero=1",
        "train.checkpoint-files=ranks", "checkpoint.keep=1");
  end_job();
  assert_all_end_well();
  assert_int_equal(slices_in(run, 1), 3);
  START(4, NULL, "train", "--run-dir", run, "--resume", "train.steps=2", "train.zero=3");
  end_job();
  assert_all_end_well();
  assert_int_equal(slices_in(run, 2), 3);
  START(3, NULL, "train", "--run-dir", run, "--resume", "train.steps=3", "train.zero=2");
  end_job();
  assert_all_end_well();
  assert_int_equal(slices_in(run, 1), 0);
  assert_int_equal(slices_in(run, 2), 0);
  assert_int_equal(slices_in(run, 3), 2);
  snprintf(latest, sizeof latest, "%s/checkpoints/latest", run);
  RUN(&p, "eval", latest);
  if (p.status) fail_msg("%s%s", p.out, p.err);
  snprintf(evaluated[0], sizeof evaluated[0], "%.60s", strstr(p.out, "Loss: "));
  snprintf(latest, sizeof latest, "%s/one.safetensors", dir);
  RUN(&p, "checkpoint", "merge", run, "--out", latest);
  if (p.status) fail_msg("%s%s", p.out, p.err);
  RUN(&p, "train", "--run-dir", run, "--resume", "train.steps=4");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  assert_int_equal(slices_in(run, 3) + slices_in(run, 4), 0);
  START(2, NULL, "train", "--run-dir", run, "--resume", "train.steps=0");
  end_job();
  assert_all_end_well();
  keep_ledger(job.said[0], ledger, sizeof ledger);
  assert_string_equal(ledger, whole_end);
  assert_int_equal(slices_in(run, STEPS), 1);
  assert_merges_to(run, whole, STEPS);
}

static void assert_unreadable(const char *run, const char *said) {
  char want[192];
  snprintf(want, sizeof want, "%s/checkpoints/latest", run);
  RUN(&p, "checkpoint", "verify", run);
  if (p.status != 1 || !strstr(p.err, said)) fail_msg("%d: %s, want %s", p.status, p.err, said);
  RUN(&p, "eval", want);
  if (!p.status || !strstr(p.err, said)) fail_msg("%d: %s, want %s", p.status, p.err, said);
  RUN(&p, "train", "--run-dir", run, "--resume", "train.steps=9");
  if (!p.status || !strstr(p.err, said)) fail_msg("%d: %s, want %s", p.status, p.err, said);
}

static void slices_that_are_missing_or_of_another_run_or_there_twice_are_refused(void **state) {
  char run[2][128], path[2][256], hidden[192], name[MR_SAFETENSORS_SLICE_NAME];
  for (int i = 0; i < 2; i++) {
    snprintf(run[i], sizeof run[i], "%s/bad%d", dir, i);
    START(3, NULL, "train", "--graph", file, "--run-dir", run[i], "train.steps=2", "train.zero=1",
          "train.checkpoint-files=ranks", i ? "train.seed=3" : "train.seed=4");
    end_job();
    assert_all_end_well();
    slice_of(run[i], 2, 1, path[i]);
  }
  snprintf(hidden, sizeof hidden, "%s/hidden", dir);
  assert_int_equal(rename(path[0], hidden), 0);
  assert_unreadable(run[0], "the slice of rank 1 of 3 is missing");
  assert_int_equal(rename(path[1], path[0]), 0);
  assert_unreadable(run[0], "which is of another step or another run");
  snprintf(name, sizeof name, "%.100s", strrchr(path[0], '/') + 1);
  assert_int_equal(rename(hidden, path[0]), 0);
  damage_at(path[0], -1);
  assert_unreadable(run[0], "is damaged");
  assert_non_null(strstr(p.err, name)); /* the file of the slice */
  damage_at(path[0], -1);
  RUN(&p, "checkpoint", "verify", run[0]);
  assert_int_equal(p.status, 0);
}

/* Until a slice of the step is there, or the run has come as far, or has ended. */
static void wait_for_slice(const char *run, int step) {
  siginfo_t ended = {0};
  while (!slices_in(run, step) && newest_step(run) < step &&
         waitid(P_PID, (id_t)job.pid[0], &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && !ended.si_pid)
    usleep(50);
}

/* Whether the run has left slices of a step whose file of rank 0 is not there. */
static bool is_torn(const char *run) {
  bool torn = false;
  for (int step = newest_step(run) + 1, end = step + 2; step < end; step++) {
    char path[192];
    snprintf(path, sizeof path, "%s/checkpoints/step-%06d.safetensors", run, step);
    torn |= slices_in(run, step) && access(path, F_OK) < 0;
  }
  return torn;
}

/* A rank alone, and all of them at once, as their host dies: between the files of a checkpoint,
   too. The moment is that at which a slice is there whose file of rank 0 is not: rounds follow
   until one has left that. */
static void a_kill_between_the_files_of_a_checkpoint_leaves_the_last_one_whole(void **state) {
  enum { ROUNDS = 5, ROUNDS_MOST = 30 };
  int torn = 0;
  for (int round = 0; round < ROUNDS || (!torn && round < ROUNDS_MOST); round++) {
    char run[128], until[32], alone[128], ledger[2][64];
    int step = 3 + round % ROUNDS;
    snprintf(run, sizeof run, "%s/torn%d", dir, round);
    START(3, NULL, "train", "--graph", file, "--run-dir", run, "shuffle.epochs=100000",
          round % 2 ? "train.zero=3" : "train.zero=1", "train.checkpoint-files=ranks",
          "train.checkpoint-every=1", "checkpoint.keep=2");
    wait_for_slice(run, step);
    for (int r = 0; r < 3; r++)
      if (round > 2 || round == r) kill(job.pid[r], SIGKILL);
    end_job();
    RUN(&p, "checkpoint", "verify", run);
    if (p.status) fail_msg("round %d: %s%s", round, p.out, p.err);
    int newest = newest_step(run);
    assert_true(newest >= step - 2); /* the file of the step before may still await its metrics */
    torn += is_torn(run);
    if (round < ROUNDS - 1) continue;
    snprintf(alone, sizeof alone, "%s/torn-alone%d", dir, round);
    snprintf(until, sizeof until, "train.steps=%d", newest + 2);
    START(2, NULL, "train", "--run-dir", run, "--resume", until);
    end_job();
    assert_all_end_well();
    keep_ledger(job.said[0], ledger[0], sizeof ledger[0]);
    RUN(&p, "train", "--graph", file, "--run-dir", alone, "shuffle.epochs=100000", until,
        "train.checkpoint-every=1");
    keep_ledger(p.out, ledger[1], sizeof ledger[1]);
    assert_string_equal(ledger[0], ledger[1]);
    assert_int_equal(slices_in(run, newest + 2), 1);
    assert_merges_to(run, alone, newest + 2);
  }
  if (!torn) fail_msg("no kill of %d came between the files of a checkpoint", ROUNDS_MOST);
}

/* Slices that are not beside the file that names them: the ranks write to another folder, or a
   second stage does. */
static void a_file_away_from_its_slices_is_refused(void **state) {
  char run[128], away[160], text[sizeof graph + 64], twice[128];
  snprintf(away, sizeof away, "train.checkpoint-dir=%s/away", dir);
  snprintf(twice, sizeof twice, "%s/twice.mr", dir);
  snprintf(text, sizeof text, "%strain.state ! checkpoint dir=$run/second keep=0\n", graph);
  assert_int_equal(mr_write_file(twice, text, strlen(text), NULL), MR_OK);
  for (int i = 0; i < 2; i++) {
    snprintf(run, sizeof run, "%s/apart%d", dir, i);
    START(2, NULL, "train", "--graph", i ? twice : file, "--run-dir", run, "train.zero=1",
          "train.checkpoint-files=ranks", i ? "train.ema=0" : away);
    end_job();
    if (job.status[0] != 2 || !strstr(job.complained[0], " is not there: want dir = the training"))
      fail_msg("%d: %s", job.status[0], job.complained[0]);
    assert_int_not_equal(job.status[1], 0);
  }
}

/* A rank that cannot write its slice ends the job with its reason. */
static void a_rank_that_cannot_write_its_slice_is_named(void **state) {
  char run[128];
  snprintf(run, sizeof run, "%s/unwritten", dir);
  START(2, NULL, "train", "--graph", file, "--run-dir", run, "train.zero=1",
        "train.checkpoint-files=ranks", "train.checkpoint-dir=/proc/nowhere");
  end_job();
  for (int r = 0; r < 2; r++)
    if (job.status[r] != 1 || !strstr(job.complained[r], "rank 1: /proc/nowhere"))
      fail_msg("rank %d: %d: %s", r, job.status[r], job.complained[r]);
}

/* Four processes with parts of parameters, of whose batches two read each half, reach the bits of
   as many threads, with pieces of slots and values too; a stop makes them whole, and so do slices
   of their checkpoints. */
static void processes_with_parts_of_parameters_reach_the_bits_of_threads(void **state) {
  static const char *const mesh[] = {"data=2,model=2", "model=2,data=2", "data=2,model=2",
                                     "data=2,model=2"};
  static const char *const zero[] = {"train.zero=0", "train.zero=1", "train.zero=2",
                                     "train.zero=3"};
  for (int i = 0; i < 4; i++) {
    char threads[128], run[128], ledger[2][64];
    snprintf(threads, sizeof threads, "%s/threads%d", dir, i);
    snprintf(run, sizeof run, "%s/parts%d", dir, i);
    RUN(&p, "train", "--graph", file, "--run-dir", threads, "--mesh", mesh[i], "train.ordered=0",
        "shuffle.epochs=2", zero[i]);
    if (p.status) fail_msg("%s%s", p.out, p.err);
    keep_ledger(p.out, ledger[0], sizeof ledger[0]);
    START(4, NULL, "train", "--graph", file, "--run-dir", run, "--mesh", mesh[i], "train.ordered=0",
          "shuffle.epochs=2", "train.steps=3", zero[i],
          i ? "train.checkpoint-files=ranks" : "train.checkpoint-files=one");
    end_job();
    assert_all_end_well(); /* on the same mesh any zero= has the same bits */
    START(4, NULL, "train", "--run-dir", run, "--resume", "--mesh", mesh[i], "train.steps=0",
          zero[3 - i]);
    end_job();
    assert_all_end_well();
    keep_ledger(job.said[0], ledger[1], sizeof ledger[1]);
    assert_string_equal(ledger[0], ledger[1]);
    for (int step = 2; step <= 4; step += 2) {
      assert_int_equal(slices_in(run, step), i ? 3 : 0);
      assert_merges_to(run, threads, step);
    }
    for (int r = 1; r < 4; r++) assert_string_equal(job.said[r], "");
  }
}

/* ---- stages that are processes ---- */

static const char staged[] =
    "let run = unset\n"
    "synthetic n=48 split=train ! shuffle seed=1 epochs=3 ! flip p=0.5 ! normalize preset=cifar10\n"
    "  ! batch 16 drop-remainder\n"
    "  ! train-step name=train model=vit layers=2 embed=16 mlp=16 heads=2 dropout=0.2 ema=0.75\n"
    "      clip-norm=0.5 loss-scale=dynamic lr=1e-2 threads=1 checkpoint-every=2 leak-check=off\n"
    "synthetic n=32 split=test ! sequential epochs=1 ! normalize preset=cifar10\n"
    "  ! batch 16 ! train.test\n"
    "train.metrics ! progress\n"
    "train.state ! checkpoint dir=$run/checkpoints keep=0\n";

enum { STAGED_STEPS = 9 };

/* The graph's file, and the run of one process without stages; `ledger` takes its ledger. */
static void run_without_stages(char *path, char *one, size_t n, char *ledger) {
  snprintf(path, n, "%s/staged.mr", dir), snprintf(one, n, "%s/staged-one", dir);
  assert_int_equal(mr_write_file(path, staged, sizeof staged - 1, NULL), MR_OK);
  program_forget(one);
  RUN(&p, "train", "--graph", path, "--run-dir", one, "train.ordered=8");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  keep_ledger(p.out, ledger, 64);
}

/* One pipeline, two that share batches, uneven ones, named stages, and slices of checkpoints. */
static void processes_with_stages_end_as_one_process(void **state) {
  static const struct {
    int size;
    const char *word[3];
  } row[] = {
      {2, {"train.pipeline=2", "train.watch-every=3", "train.leak-check=off"}},
      {4, {"train.pipeline=2", "train.checkpoint-files=ranks", "train.microbatches=8"}},
      {4, {"train.pipeline=2", "train.checkpoint-files=ranks", "train.zero=3"}},
      {4, {"train.pipeline=4", "train.pipeline-schedule=gpipe", "train.ema=0.75"}},
      {3, {"train.stages=embed | blocks[0] | blocks[1],head", "train.threads=1", "train.lr=1e-2"}}};
  char path[128], one[128], ledger[2][64];
  run_without_stages(path, one, sizeof path, ledger[0]);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char run[128];
    snprintf(run, sizeof run, "%s/staged%zu", dir, i);
    START(row[i].size, NULL, "train", "--graph", path, "--run-dir", run, row[i].word[0],
          row[i].word[1], row[i].word[2]);
    end_job();
    assert_all_end_well();
    keep_ledger(job.said[0], ledger[1], sizeof ledger[1]);
    assert_string_equal(ledger[0], ledger[1]);
    for (int r = 1; r < row[i].size; r++) assert_string_equal(job.said[r], "");
    for (int step = 2; step <= 8; step += 2) {
      bool slices = strstr(row[i].word[1], "files=ranks") != NULL;
      assert_int_equal(slices_in(run, step), slices ? 3 : 0);
      if (slices)
        assert_merges_to(run, one, step);
      else
        assert_same_checkpoint(one, run, step);
    }
  }
}

/* 2 x 2 processes, then 3 without stages, threads with stages, and 4 stages. */
static void stages_of_processes_resume_in_other_layouts(void **state) {
  char path[128], one[128], run[128], ledger[2][64];
  run_without_stages(path, one, sizeof path, ledger[0]);
  snprintf(run, sizeof run, "%s/layouts", dir);
  START(4, NULL, "train", "--graph", path, "--run-dir", run, "train.pipeline=2", "train.steps=3");
  end_job();
  assert_all_end_well();
  START(3, NULL, "train", "--run-dir", run, "--resume", "train.pipeline=0", "train.ordered=8",
        "train.steps=5");
  end_job();
  assert_all_end_well();
  RUN(&p, "train", "--run-dir", run, "--resume", "--mesh", "data=4", "train.pipeline=4",
      "train.steps=7");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  START(4, NULL, "train", "--run-dir", run, "--resume", "train.pipeline=4", "train.steps=0");
  end_job();
  assert_all_end_well();
  keep_ledger(job.said[0], ledger[1], sizeof ledger[1]);
  assert_string_equal(ledger[0], ledger[1]);
  assert_same_checkpoint(one, run, STAGED_STEPS);
}

static void a_stage_that_is_killed_is_named_and_its_run_resumes_on_fewer(void **state) {
  char path[128], one[128], run[128], alone[128], until[32], ledger[2][64];
  run_without_stages(path, one, sizeof path, ledger[0]);
  snprintf(run, sizeof run, "%s/stage-killed", dir);
  snprintf(alone, sizeof alone, "%s/stage-alone", dir);
  START(4, NULL, "train", "--graph", path, "--run-dir", run, "shuffle.epochs=100000",
        "train.pipeline=2");
  wait_for_step(run, 2);
  kill(job.pid[3], SIGKILL);
  end_job();
  for (int r = 0; r < 3; r++) {
    assert_int_equal(job.status[r], 1);
    if (!strstr(job.complained[r], "rank 3 has not been heard of"))
      fail_msg("rank %d says: %s", r, job.complained[r]);
  }
  int step = newest_step(run);
  assert_true(step >= 2);
  snprintf(until, sizeof until, "train.steps=%d", step + 2);
  START(2, NULL, "train", "--run-dir", run, "--resume", until);
  end_job();
  assert_all_end_well();
  keep_ledger(job.said[0], ledger[0], sizeof ledger[0]);
  RUN(&p, "train", "--graph", path, "--run-dir", alone, "shuffle.epochs=100000", "train.ordered=8",
      until);
  keep_ledger(p.out, ledger[1], sizeof ledger[1]);
  assert_string_equal(ledger[0], ledger[1]);
}

/* Stages whose ranks have parts of parameters: one pipeline of two, the axes either way round, with
   values of shares, and slices of checkpoints. */
static void processes_with_parts_of_stages_reach_the_bits_of_threads(void **state) {
  static const char *const mesh[] = {"data=2,model=2", "model=2,data=2"};
  char path[128], one[128], first[64];
  run_without_stages(path, one, sizeof path, first);
  for (int i = 0; i < 2; i++) {
    char threads[128], run[128], ledger[2][64];
    snprintf(threads, sizeof threads, "%s/stage-threads%d", dir, i);
    snprintf(run, sizeof run, "%s/stage-parts%d", dir, i);
    RUN(&p, "train", "--graph", path, "--run-dir", threads, "--mesh", mesh[i], "train.pipeline=2");
    if (p.status) fail_msg("%s%s", p.out, p.err);
    keep_ledger(p.out, ledger[0], sizeof ledger[0]);
    START(4, NULL, "train", "--graph", path, "--run-dir", run, "--mesh", mesh[i],
          "train.pipeline=2", "train.steps=5", i ? "train.zero=0" : "train.zero=3",
          i ? "train.checkpoint-files=ranks" : "train.checkpoint-files=one");
    end_job();
    assert_all_end_well();
    START(4, NULL, "train", "--run-dir", run, "--resume", "--mesh", mesh[i], "train.steps=0",
          i ? "train.zero=3" : "train.zero=0");
    end_job();
    assert_all_end_well();
    keep_ledger(job.said[0], ledger[1], sizeof ledger[1]);
    assert_string_equal(ledger[0], ledger[1]);
    for (int step = 2; step <= 8; step += 2) {
      assert_int_equal(slices_in(run, step), i ? 3 : 0);
      assert_merges_to(run, threads, step);
    }
    for (int r = 1; r < 4; r++) assert_string_equal(job.said[r], "");
  }
}

/* The run of a job that lost a rank continues on other meshes, without stages and on one rank. */
static void a_part_of_a_stage_that_is_killed_is_named_and_its_run_resumes_elsewhere(void **state) {
  char path[128], one[128], run[128], alone[128], until[2][32], ledger[2][64];
  run_without_stages(path, one, sizeof path, ledger[0]);
  snprintf(run, sizeof run, "%s/part-killed", dir);
  snprintf(alone, sizeof alone, "%s/part-alone", dir);
  START(4, NULL, "train", "--graph", path, "--run-dir", run, "shuffle.epochs=100000", "--mesh",
        "data=2,model=2", "train.pipeline=2", "train.zero=3");
  wait_for_step(run, 2);
  kill(job.pid[3], SIGKILL);
  end_job();
  for (int r = 0; r < 3; r++) {
    assert_int_equal(job.status[r], 1);
    if (!strstr(job.complained[r], "rank 3")) fail_msg("rank %d says: %s", r, job.complained[r]);
  }
  int step = newest_step(run);
  assert_true(step >= 2);
  for (int i = 0; i < 2; i++) snprintf(until[i], sizeof until[i], "train.steps=%d", step + 2 + i);
  RUN(&p, "train", "--run-dir", run, "--resume", "--mesh", "data=1,model=2", "train.pipeline=0",
      until[0]);
  if (p.status) fail_msg("%s%s", p.out, p.err);
  keep_ledger(p.out, ledger[0], sizeof ledger[0]);
  RUN(&p, "train", "--graph", path, "--run-dir", alone, "shuffle.epochs=100000", "--mesh",
      "data=4,model=2", "train.pipeline=2", until[0]);
  if (p.status) fail_msg("%s%s", p.out, p.err);
  keep_ledger(p.out, ledger[1], sizeof ledger[1]);
  assert_string_equal(ledger[0], ledger[1]);
  RUN(&p, "train", "--run-dir", run, "--resume", "--mesh", "data=1", until[1]);
  if (p.status) fail_msg("%s%s", p.out, p.err);
}

/* It stays that of the run, and one that does not fit is refused, not replaced. */
static void a_mesh_of_the_graph_s_own_text_is_that_of_the_job(void **state) {
  static const char text[] =
      "let run = unset\n"
      "synthetic n=40 ! shuffle seed=1 epochs=1 ! normalize preset=cifar10\n"
      "  ! batch 16 drop-remainder ! shard-to-device mesh=\"data=2,model=2\"\n"
      "  ! train-step name=train model=mlp hidden=8 ordered=0 threads=1\n"
      "train.metrics ! progress\n"
      "train.state ! checkpoint dir=$run/checkpoints keep=0\n";
  char own[96], run[2][128], path[192];
  void *settings;
  size_t n;
  snprintf(own, sizeof own, "%s/own-mesh.mr", dir);
  snprintf(run[0], sizeof run[0], "%s/own-mesh", dir);
  snprintf(run[1], sizeof run[1], "%s/own-mesh-of-3", dir);
  assert_int_equal(mr_write_file(own, text, strlen(text), NULL), MR_OK);
  START(4, NULL, "train", "--graph", own, "--run-dir", run[0]);
  end_job();
  assert_all_end_well();
  snprintf(path, sizeof path, "%s/settings.txt", run[0]);
  if (mr_read_file(path, 1 << 16, &settings, &n, NULL) == MR_OK) {
    if (memmem(settings, n, "mesh=", 5)) fail_msg("%.*s", (int)n, (char *)settings);
    free(settings);
  }
  START(3, NULL, "train", "--graph", own, "--run-dir", run[1]);
  end_job();
  if (!job.status[0] || !strstr(job.complained[0], "4 ranks, and this job has 3 processes"))
    fail_msg("status %d: %s", job.status[0], job.complained[0]);
}

static void stages_that_do_not_divide_the_processes_are_refused(void **state) {
  char path[128], run[128];
  snprintf(path, sizeof path, "%s/staged.mr", dir), snprintf(run, sizeof run, "%s/odd", dir);
  assert_int_equal(mr_write_file(path, staged, sizeof staged - 1, NULL), MR_OK);
  START(3, NULL, "train", "--graph", path, "--run-dir", run, "train.pipeline=2");
  end_job();
  for (int r = 0; r < 3; r++)
    if (job.status[r] != 2 || !strstr(job.complained[r], "it does not divide the 3 ranks"))
      fail_msg("rank %d: status %d: %s", r, job.status[r], job.complained[r]);
}

/* Holes, walks, steps without records, records that are excluded, batches across epochs. */
static void every_kind_of_stream_gives_a_job_the_batches_of_one_process(void **state) {
  static const char *const stream[] = {
      "synthetic n=90 split=train ! shuffle seed=1 epochs=2 ! normalize preset=cifar10\n"
      "  ! filter label=0,1,2,3,4,5,6 ! batch 18 drop-remainder",
      "synthetic n=90 split=train ! shuffle seed=1 epochs=2 ! flip ! normalize preset=cifar10\n"
      "  ! batch 18 drop-remainder skip-steps=2,5",
      "synthetic n=90 split=train skip-records=3,17,40-44 ! shuffle seed=1 epochs=2\n"
      "  ! normalize preset=cifar10 ! batch 18 drop-remainder workers=2",
      "synthetic n=90 split=train ! shuffle seed=1 epochs=2 ! normalize preset=cifar10\n"
      "  ! batch 17 drop-remainder across-epochs",
      "synthetic n=90 split=train ! shuffle seed=1 ! to-iter-dataset ! window-shuffle 20 seed=3\n"
      "  ! normalize preset=cifar10 ! batch 18 drop-remainder"};
  for (size_t i = 0; i < sizeof stream / sizeof *stream; i++) {
    char text[2048], path[128], one[128], two[128], ledger[2][64];
    snprintf(text, sizeof text,
             "let run = unset\n%s\n"
             "  ! train-step name=train model=vit layers=1 embed=16 mlp=16 heads=2 threads=1\n"
             "      ordered=8 steps=7\n"
             "train.metrics ! progress\n"
             "train.state ! checkpoint dir=$run/checkpoints keep=0\n",
             stream[i]);
    snprintf(path, sizeof path, "%s/stream%zu.mr", dir, i);
    snprintf(one, sizeof one, "%s/kind%zu", dir, i),
        snprintf(two, sizeof two, "%s/kind%zu-job", dir, i);
    assert_int_equal(mr_write_file(path, text, strlen(text), NULL), MR_OK);
    RUN(&p, "train", "--graph", path, "--run-dir", one);
    if (p.status) fail_msg("%s: %s%s", stream[i], p.out, p.err);
    keep_ledger(p.out, ledger[0], sizeof ledger[0]);
    START(3, NULL, "train", "--graph", path, "--run-dir", two, "train.steps=3");
    end_job();
    assert_all_end_well();
    START(4, NULL, "train", "--run-dir", two, "--resume", "train.steps=7");
    end_job();
    assert_all_end_well();
    keep_ledger(job.said[0], ledger[1], sizeof ledger[1]);
    if (strcmp(ledger[0], ledger[1])) fail_msg("%s: %s, %s", stream[i], ledger[0], ledger[1]);
    assert_same_checkpoint(one, two, newest_step(one));
  }
}

/* mixup mixes records of the whole batch, so that each process makes all of it. */
static void ranks_read_whole_batches_where_slices_would_be_others(void **state) {
  static const char mixed[] =
      "let run = unset\n"
      "synthetic n=40 split=train ! shuffle seed=1 epochs=2 ! normalize preset=cifar10\n"
      "  ! one-hot ! batch 16 drop-remainder ! mixup\n"
      "  ! train-step name=train model=vit layers=1 embed=16 mlp=16 heads=2 threads=1 ordered=8\n"
      "train.metrics ! progress\n"
      "train.state ! checkpoint dir=$run/checkpoints keep=0\n";
  char path[128], one[128], two[128];
  snprintf(path, sizeof path, "%s/mixed.mr", dir);
  snprintf(one, sizeof one, "%s/mixed1", dir), snprintf(two, sizeof two, "%s/mixed2", dir);
  assert_int_equal(mr_write_file(path, mixed, sizeof mixed - 1, NULL), MR_OK);
  RUN(&p, "train", "--graph", path, "--run-dir", one);
  if (p.status) fail_msg("%s%s", p.out, p.err);
  START(3, NULL, "train", "--graph", path, "--run-dir", two);
  end_job();
  assert_all_end_well();
  assert_non_null(strstr(job.complained[0], "each process reads whole batches"));
  assert_same_checkpoint(one, two, newest_step(one));
}

/* ---- stops and deaths ---- */

/* Rank 0, rank 2, and all of them, as mpirun and srun hand a signal on. */
static void a_stop_of_any_rank_stops_all_after_the_same_step(void **state) {
  static const int victims[][2] = {{0, 1}, {2, 3}, {0, 3}};
  static const int asks[] = {SIGTERM, SIGTERM, SIGINT};
  for (int victim = 0; victim < 3; victim++) {
    char run[128], alone[128], until[32], ledger[2][64];
    snprintf(run, sizeof run, "%s/stop%d", dir, victim);
    snprintf(alone, sizeof alone, "%s/alone%d", dir, victim);
    START(3, NULL, "train", "--graph", file, "--run-dir", run, "shuffle.epochs=100000");
    wait_for_step(run, 2);
    for (int r = victims[victim][0]; r < victims[victim][1]; r++) kill(job.pid[r], asks[victim]);
    end_job();
    for (int r = 0; r < 3; r++)
      if (job.status[r] != 128 + asks[victim])
        fail_msg("rank %d: %d: %s", r, job.status[r], job.complained[r]);
    int step = newest_step(run);
    assert_true(step >= 2);
    snprintf(until, sizeof until, "train.steps=%d", step + 1);
    START(2, NULL, "train", "--run-dir", run, "--resume", until);
    end_job();
    assert_all_end_well();
    keep_ledger(job.said[0], ledger[0], sizeof ledger[0]);
    RUN(&p, "train", "--graph", file, "--run-dir", alone, "shuffle.epochs=100000", until);
    if (p.status) fail_msg("%s%s", p.out, p.err);
    keep_ledger(p.out, ledger[1], sizeof ledger[1]);
    assert_string_equal(ledger[0], ledger[1]);
  }
}

/* The rank is killed within a step, or while ranks agree on parameters before or after a watched
   one: whichever it is, it is named. */
static void a_rank_that_is_killed_while_it_gives_parts_is_named_with_stage_and_step(void **state) {
  char run[128];
  snprintf(run, sizeof run, "%s/watched", dir);
  START(2, NULL, "train", "--graph", file, "--run-dir", run, "--mesh", "model=2",
        "train.partition=*=P()", "train.ordered=0", "train.watch-every=1", "shuffle.epochs=100000");
  wait_for_step(run, 2);
  kill(job.pid[1], SIGKILL);
  end_job();
  assert_int_equal(job.status[0], 1);
  if (!strstr(job.complained[0], "rank 1 has not been heard of") ||
      !strstr(job.complained[0], "train: step "))
    fail_msg("rank 0 says: %s", job.complained[0]);
}

static void the_others_name_a_rank_that_is_killed_and_its_run_resumes_without_it(void **state) {
  char run[128], alone[128], until[32], ledger[2][64];
  snprintf(run, sizeof run, "%s/killed", dir);
  snprintf(alone, sizeof alone, "%s/killed-alone", dir);
  START(4, NULL, "train", "--graph", file, "--run-dir", run, "shuffle.epochs=100000",
        "train.zero=1");
  wait_for_step(run, 2);
  kill(job.pid[2], SIGKILL);
  end_job();
  for (int r = 0; r < 4; r++) {
    if (r == 2) continue;
    assert_int_equal(job.status[r], 1);
    if (!strstr(job.complained[r], "rank 2 has not been heard of") ||
        !strstr(job.complained[r], "train: step "))
      fail_msg("rank %d says: %s", r, job.complained[r]);
  }
  int step = newest_step(run);
  assert_true(step >= 2);
  snprintf(until, sizeof until, "train.steps=%d", step + 2);
  START(3, NULL, "train", "--run-dir", run, "--resume", until);
  end_job();
  assert_all_end_well();
  keep_ledger(job.said[0], ledger[0], sizeof ledger[0]);
  RUN(&p, "train", "--graph", file, "--run-dir", alone, "shuffle.epochs=100000", until);
  keep_ledger(p.out, ledger[1], sizeof ledger[1]);
  assert_string_equal(ledger[0], ledger[1]);
}

static void the_others_name_a_rank_that_is_stopped(void **state) {
  char run[128];
  snprintf(run, sizeof run, "%s/stands", dir);
  START(3, NULL, "train", "--graph", file, "--run-dir", run, "shuffle.epochs=100000");
  wait_for_step(run, 2);
  kill(job.pid[1], SIGSTOP);
  int status[] = {program_wait(job.pid[0]), 0, program_wait(job.pid[2])};
  kill(job.pid[1], SIGKILL);
  program_wait(job.pid[1]);
  for (int r = 0; r < 3; r++) {
    program_read(job.out[r], job.said[r], sizeof job.said[r]);
    program_read(job.err[r], job.complained[r], sizeof job.complained[r]);
    if (r == 1) continue;
    assert_int_equal(status[r], 1);
    if (!strstr(job.complained[r], "rank 1 has not been heard of"))
      fail_msg("rank %d says: %s", r, job.complained[r]);
  }
}

/* ---- what is refused ---- */

static void assert_all_refuse(const char *said, const char *run) {
  for (int r = 0; r < job.size; r++)
    if (job.status[r] != 2 || !strstr(job.complained[r], said))
      fail_msg("rank %d: status %d, \"%s\", want \"%s\"", r, job.status[r], job.complained[r],
               said);
  if (access(run, F_OK) == 0) fail_msg("%s was made", run);
}

static void a_rank_with_another_command_line_is_refused_by_all(void **state) {
  static const struct {
    const char *odd, *said;
  } row[] = {
      {"train.lr=1e-3", "rank 1 has train.lr = 1e-3, and rank 0 has nothing more"},
      {"--steps=3", "rank 1 has --steps = 3, and rank 0 has none"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char run[128];
    snprintf(run, sizeof run, "%s/odd", dir);
    START(3, row[i].odd, "train", "--graph", file, "--run-dir", run, "train.seed=5");
    end_job();
    assert_all_refuse(row[i].said, run);
  }
}

static void all_ranks_refuse_settings_that_do_not_fit_their_job(void **state) {
  static const struct {
    const char *mesh, *also, *said;
  } bad[] = {
      {"data=8", "train.lr=1e-2", "8 ranks, and this job has 2 processes"},
      {"data=1", "train.lr=1e-2", "1 ranks, and this job has 2 processes"},
      {"data=2", "train.on-nan=trace", "want on-nan=stop"},
      {"data=2", "batch.host=0/2", "want no host="},
      {"data=2", "train.lr=many", "want a number"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char run[128], also[64];
    snprintf(run, sizeof run, "%s/unfit", dir);
    snprintf(also, sizeof also, "%s", bad[i].also);
    START(2, NULL, "train", "--graph", file, "--run-dir", run, "--mesh", bad[i].mesh, also);
    end_job();
    assert_all_refuse(bad[i].said, run);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_job_ends_with_the_checkpoints_and_ledger_of_one_process),
      cmocka_unit_test(a_job_ends_early_where_one_process_does),
      cmocka_unit_test(a_job_validates_and_keeps_states_by_the_clock),
      cmocka_unit_test(any_rank_may_be_asked_for_a_checkpoint),
      cmocka_unit_test(a_job_resumes_on_other_processes_and_on_threads),
      cmocka_unit_test(processes_with_shares_of_slots_end_as_one_process),
      cmocka_unit_test(a_job_resumes_with_another_zero),
      cmocka_unit_test(slices_of_ranks_are_merged_to_the_checkpoint_of_one_process),
      cmocka_unit_test(slices_of_ranks_are_resumed_by_any_number_of_processes),
      cmocka_unit_test(slices_that_are_missing_or_of_another_run_or_there_twice_are_refused),
      cmocka_unit_test(a_kill_between_the_files_of_a_checkpoint_leaves_the_last_one_whole),
      cmocka_unit_test(a_file_away_from_its_slices_is_refused),
      cmocka_unit_test(a_rank_that_cannot_write_its_slice_is_named),
      cmocka_unit_test(processes_with_parts_of_parameters_reach_the_bits_of_threads),
      cmocka_unit_test(processes_with_stages_end_as_one_process),
      cmocka_unit_test(stages_of_processes_resume_in_other_layouts),
      cmocka_unit_test(a_stage_that_is_killed_is_named_and_its_run_resumes_on_fewer),
      cmocka_unit_test(processes_with_parts_of_stages_reach_the_bits_of_threads),
      cmocka_unit_test(a_part_of_a_stage_that_is_killed_is_named_and_its_run_resumes_elsewhere),
      cmocka_unit_test(a_mesh_of_the_graph_s_own_text_is_that_of_the_job),
      cmocka_unit_test(stages_that_do_not_divide_the_processes_are_refused),
      cmocka_unit_test(every_kind_of_stream_gives_a_job_the_batches_of_one_process),
      cmocka_unit_test(ranks_read_whole_batches_where_slices_would_be_others),
      cmocka_unit_test(a_stop_of_any_rank_stops_all_after_the_same_step),
      cmocka_unit_test(the_others_name_a_rank_that_is_killed_and_its_run_resumes_without_it),
      cmocka_unit_test(a_rank_that_is_killed_while_it_gives_parts_is_named_with_stage_and_step),
      cmocka_unit_test(the_others_name_a_rank_that_is_stopped),
      cmocka_unit_test(a_rank_with_another_command_line_is_refused_by_all),
      cmocka_unit_test(all_ranks_refuse_settings_that_do_not_fit_their_job),
  };
  return cmocka_run_group_tests(tests, group_setup, small_run_forget);
}
