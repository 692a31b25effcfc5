/* train in a job of processes that compute on devices: the bits of one process and one device, on
   any number of ranks; a rank that dies, a resume without it, and what such ranks cannot share. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "model/exec/device.h"
#include "tests/apps/job.h"

enum { STEPS = 6 };

/* Batches of 18 records, in 8 parts of 3 and of 2. */
static const char graph[] =
    "let run = unset\n"
    "synthetic n=40 split=train ! shuffle seed=1 epochs=3 ! flip p=0.5 ! normalize preset=cifar10\n"
    "  ! batch 18 drop-remainder\n"
    "  ! train-step name=train model=mlp hidden=8 dropout=0.2 ema=0.75 device=opencl ordered=8\n"
    "      clip-norm=0.5 loss-scale=dynamic lr=1e-2 threads=1 checkpoint-every=2 watch-every=2\n"
    "synthetic n=32 split=test ! sequential epochs=1 ! normalize preset=cifar10\n"
    "  ! batch 16 ! train.test\n"
    "train.metrics ! progress\n"
    "train.metrics ! jsonl path=$run/metrics.jsonl\n"
    "train.state ! checkpoint dir=$run/checkpoints keep=0\n";

static char whole_end[256]; /* the ledger of the run of one process */

static int group_setup(void **state) {
  unsetenv("MILLRACE_SECRET");
  int status = small_run("job-device", graph);
  if (!status) keep_ledger(p.out, whole_end, sizeof whole_end);
  return status;
}

static void assert_same_run(const char *run) {
  char ledger[sizeof whole_end];
  assert_all_end_well();
  keep_ledger(job.said[0], ledger, sizeof ledger);
  assert_string_equal(ledger, whole_end);
  assert_same_checkpoint(whole, run, STEPS);
}

/* Ranks share a device, or have one each: PoCL makes a device of each word. */
static void ranks_on_devices_end_with_the_bits_of_one(void **state) {
  for (int size = 2; size <= RANKS_MOST; size++) {
    char run[128];
    snprintf(run, sizeof run, "%s/job%d", dir, size);
    if (size == 2) setenv("POCL_DEVICES", "pthread pthread", 1);
    START(size, NULL, "train", "--graph", file, "--run-dir", run);
    unsetenv("POCL_DEVICES");
    end_job();
    assert_same_run(run);
  }
}

static void a_job_resumes_on_other_ranks_and_on_one_process(void **state) {
  START(3, NULL, "train", "--graph", file, "--run-dir", other, "train.steps=2");
  end_job();
  assert_all_end_well();
  RUN(&p, "train", "--run-dir", other, "--resume", "train.steps=4");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  START(2, NULL, "train", "--run-dir", other, "--resume", "train.steps=0");
  end_job();
  assert_same_run(other);
}

/* The device of a rank whose exchange fails has parameters that are undefined: none of them is
   written to a checkpoint. */
static void a_rank_that_is_killed_is_named_and_spares_the_checkpoint(void **state) {
  char run[128], one[128], ledger[2][64];
  snprintf(run, sizeof run, "%s/killed", dir);
  snprintf(one, sizeof one, "%s/undisturbed", dir);
  START(3, NULL, "train", "--graph", file, "--run-dir", run, "shuffle.epochs=2000");
  wait_for_step(run, 4);
  kill(job.pid[1], SIGKILL);
  end_job();
  assert_int_equal(job.status[1], 128 + SIGKILL);
  for (int r = 0; r < 3; r += 2)
    if (!job.status[r] || !strstr(job.complained[r], "rank 1"))
      fail_msg("rank %d: status %d: %s", r, job.status[r], job.complained[r]);
  int step = newest_step(run);
  char last[40];
  snprintf(last, sizeof last, "train.steps=%d", step + 2);
  START(2, NULL, "train", "--run-dir", run, "--resume", last);
  end_job();
  assert_all_end_well();
  keep_ledger(job.said[0], ledger[0], sizeof ledger[0]);
  RUN(&p, "train", "--graph", file, "--run-dir", one, "shuffle.epochs=2000", last);
  if (p.status) fail_msg("%s%s", p.out, p.err);
  keep_ledger(p.out, ledger[1], sizeof ledger[1]);
  assert_string_equal(ledger[0], ledger[1]);
  assert_same_checkpoint(one, run, step + 2);
}

static void ranks_on_devices_are_refused_what_only_processors_share(void **state) {
  static const char *const row[][3] = {
      {"train.zero=1", "train.ordered=8", "share batches, and zero=1 is for device=cpu"},
      {"train.pipeline=2", "train.ordered=2", "share batches, and pipeline= is for device=cpu"},
      {"train.partition=*.bias=(data)", "train.ordered=0",
       "share batches, and a mesh that cuts parameters is for device=cpu"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    START(2, NULL, "train", "--graph", file, "--run-dir", other, row[i][0], row[i][1]);
    end_job();
    if (!job.status[0] || !strstr(job.complained[0], row[i][2]))
      fail_msg("%s: status %d: %s", row[i][0], job.status[0], job.complained[0]);
  }
}

static void a_copy_to_the_device_before_ranks_share_is_refused(void **state) {
  static const char text[] =
      "let run = unset\n"
      "synthetic n=40 ! shuffle epochs=1 ! normalize ! batch 18 drop-remainder ! to-device\n"
      "  ! train-step name=train model=mlp hidden=8 device=opencl ordered=8\n"
      "train.metrics ! progress\n";
  char copies[128];
  snprintf(copies, sizeof copies, "%s/copies.mr", dir);
  assert_int_equal(mr_write_file(copies, text, strlen(text), NULL), MR_OK);
  START(2, NULL, "train", "--graph", copies, "--run-dir", other);
  end_job();
  if (!job.status[0] || !strstr(job.complained[0], "want the graph without to-device"))
    fail_msg("status %d: %s", job.status[0], job.complained[0]);
}

static void ranks_of_one_process_are_computed_as_one_with_the_same_bits(void **state) {
  RUN(&p, "train", "--graph", file, "--run-dir", other, "--mesh", "data=2");
  if (p.status || !strstr(p.err, "device opencl computes what 2 ranks share as one"))
    fail_msg("status %d: %s", p.status, p.err);
  assert_same_checkpoint(whole, other, STEPS);
}

static int forget_other(void **state) { return program_forget(other); }

int main(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  printf("[  SKIPPED ] job_device_under_a_sanitizer\n");
  printf("a driver's own compiler and threads are not built for a sanitizer\n");
  return 77;
#endif
  mr_diag_t diag = {0};
  const mr_device_t *device;
  if (mr_device_open("opencl", &device, &diag) < 0) {
    printf("%s\n[  SKIPPED ] job_device_without_a_device\n", diag.text);
    return 77;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranks_on_devices_end_with_the_bits_of_one),
      cmocka_unit_test_teardown(a_job_resumes_on_other_ranks_and_on_one_process, forget_other),
      cmocka_unit_test(a_rank_that_is_killed_is_named_and_spares_the_checkpoint),
      cmocka_unit_test(ranks_on_devices_are_refused_what_only_processors_share),
      cmocka_unit_test(a_copy_to_the_device_before_ranks_share_is_refused),
      cmocka_unit_test_teardown(ranks_of_one_process_are_computed_as_one_with_the_same_bits,
                                forget_other),
  };
  return cmocka_run_group_tests(tests, group_setup, small_run_forget);
}
