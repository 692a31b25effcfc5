/* Training on an OpenCL device by the whole program: kill -9 and resume give the same ledger, and
   so do commands that a layer holds back; validation, fit=, eval; a device that fails during a run;
   sentences for devices that cannot be used. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <stdbool.h>

#include "base/feature.h"
#include "model/exec/device.h"
#include "tests/apps/small_run.h"

static const char graph[] =
    "let run = unset\n"
    "let seed = 12\n"
    "synthetic n=64 split=train ! shuffle seed=$seed epochs=3 ! normalize preset=cifar10\n"
    "  ! batch 8 drop-remainder name=batches\n"
    "  ! train-step model=mlp name=train device=opencl ema=0.9 seed=$seed checkpoint-every=5\n"
    "    watch-every=7 threads=1\n"
    "synthetic name=held n=32 split=valid ! sequential epochs=0 ! normalize preset=cifar10\n"
    "  ! batch 16 name=held-batches ! train.valid\n"
    "train.metrics ! jsonl path=$run/metrics.jsonl\n"
    "train.metrics ! progress\n"
    "train.state ! checkpoint dir=$run/checkpoints\n";

static char ledger[17];

static void ledger_of(char text[17]) {
  const char *at = strstr(p.out, "ledger ");
  if (p.status != 0 || !at) fail_msg("status %d, no ledger in: %s%s", p.status, p.out, p.err);
  snprintf(text, 17, "%.16s", at + 7);
}

static void same_ledger(const char *after) {
  char now[17];
  ledger_of(now);
  if (strcmp(now, ledger)) fail_msg("after %s: ledger %s, want %s", after, now, ledger);
}

static int forget_other(void **state) { return program_forget(other); }

static void a_killed_run_resumes_to_the_same_ledger(void **state) {
  const char *const words[] = {"train", "--graph", file, "--run-dir", other, NULL};
  char checkpoint[128];
  FILE *out = tmpfile(), *err = tmpfile();
  pid_t pid = program_start(words, out, err);
  snprintf(checkpoint, sizeof checkpoint, "%s/checkpoints/latest", other);
  while (access(checkpoint, F_OK) && !waitpid(pid, NULL, WNOHANG)) usleep(1000);
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  fclose(out), fclose(err);
  RUN(&p, "train", "--run-dir", other, "--resume");
  if (strstr(p.out, "nothing to do")) return; /* it was faster than the kill */
  same_ledger("kill -9");
}

/* On the processors: near, not the same. */
static void a_run_resumes_on_the_processors(void **state) {
  RUN(&p, "train", "--graph", file, "--run-dir", other, "--steps", "10");
  assert_int_equal(p.status, 0);
  RUN(&p, "train", "--run-dir", other, "--resume", "--steps", "0", "--device", "cpu");
  assert_int_equal(p.status, 0);
  assert_non_null(strstr(p.out, "24 steps"));
}

static void a_checkpoint_is_evaluated_there_as_here(void **state) {
  char checkpoint[128];
  double loss[2] = {0};
  snprintf(checkpoint, sizeof checkpoint, "%s/checkpoints/latest", whole);
  for (int i = 0; i < 2; i++) {
    RUN(&p, "eval", checkpoint, "--device", i ? "opencl" : "cpu");
    const char *at = strstr(p.out, "oss: ");
    if (p.status || !at) fail_msg("status %d: %s%s", p.status, p.out, p.err);
    loss[i] = strtod(at + 5, NULL);
  }
  assert_true(loss[0] > 0 && fabs(loss[0] - loss[1]) <= 2e-3 * loss[0]);
}

/* The one is copied while the next step computes, the other when no step is left. */
static void a_checkpoint_is_that_of_a_run_that_ends_there(void **state) {
  char compare[512];
  RUN(&p, "train", "--graph", file, "--run-dir", other, "--steps", "20");
  assert_int_equal(p.status, 0);
  snprintf(compare, sizeof compare,
           "cmp %s/checkpoints/step-000020.safetensors %s/checkpoints/latest", whole, other);
  assert_int_equal(system(compare), 0);
}

/* Held back, a command shows a host that does not wait: other bits would come. */
static void commands_held_back_change_nothing(void **state) {
  char count[128];
  long held = 0, any = 0;
  snprintf(count, sizeof count, "%s/count", dir);
  setenv("OPENCL_LAYERS", MR_OPENCL_LAYER, 1);
  setenv("LAYER_COUNT", count, 1);
  for (int seed = 1; seed <= 2; seed++) {
    setenv("LAYER_SEED", seed == 1 ? "1" : "2", 1);
    program_forget(other);
    unlink(count), held = 0;
    RUN(&p, "train", "--graph", file, "--run-dir", other);
    if (p.status) fail_msg("seed %d: status %d: %s", seed, p.status, p.err);
    FILE *f = fopen(count, "r");
    if (f && fscanf(f, "%ld", &held) != 1) held = 0;
    if (f) fclose(f);
    if (held) same_ledger("commands that were held back");
    any |= held;
  }
  unsetenv("OPENCL_LAYERS"), unsetenv("LAYER_SEED"), unsetenv("LAYER_COUNT");
  if (!any) skip(); /* a loader without layers */
}

/* Whether the loader takes layers: one that aborts would be seen. */
static bool layers_work(void) {
  setenv("OPENCL_LAYERS", MR_OPENCL_LAYER, 1);
  setenv("LAYER_ABORT", "1", 1);
  RUN(&p, "doctor");
  unsetenv("OPENCL_LAYERS"), unsetenv("LAYER_ABORT");
  return strstr(p.out, "ends the process that asks") != NULL;
}

/* The line that ends the run, behind the notice, names step, op and scope; with MILLRACE_SYNC=1 so
   does that of a failure that is met behind the call. */
static void a_device_that_fails_ends_the_run_and_spares_the_checkpoint(void **state) {
  for (int sync = 0; sync < 2; sync++) {
    program_forget(other);
    setenv("OPENCL_LAYERS", MR_OPENCL_LAYER, 1);
    setenv("LAYER_FAIL", "600", 1);
    if (sync) setenv("MILLRACE_SYNC", "1", 1);
    RUN(&p, "train", "--graph", file, "--run-dir", other);
    unsetenv("OPENCL_LAYERS"), unsetenv("LAYER_FAIL"), unsetenv("MILLRACE_SYNC");
    if (p.status == 0 && !layers_work()) skip();
    const char *step = strstr(p.err, ": step "), *why = step ? strstr(step, " failed with ") : NULL;
    if (p.status != 1 || !why || !strstr(why, "CL_OUT_OF_RESOURCES") ||
        !strstr(step, ": device opencl: ") || !strstr(step, " in ") || strstr(step, " in ") > why)
      fail_msg("status %d: %s", p.status, p.err);
  }
  char checkpoint[200];
  snprintf(checkpoint, sizeof checkpoint, "%s/checkpoints/latest", other);
  assert_int_equal(access(checkpoint, F_OK), 0);
  RUN(&p, "train", "--run-dir", other, "--resume");
  same_ledger("a failed device");
}

static void refused(const char *device, int status, const char *sentence) {
  RUN(&p, "train", "--graph", file, "--run-dir", other, "--device", device);
  const char *end = strchr(p.err, '\n');
  if (p.status != status || !strstr(p.err, sentence) || !end || end[1])
    fail_msg("--device %s: status %d, want %d and \"%s\": %s", device, p.status, status, sentence,
             p.err);
  if (!access(other, F_OK)) fail_msg("--device %s leaves %s behind", device, other);
}

/* What is said of it on a machine without a driver. */
static const char *cuda_is_missing(void) {
  return mr_built_in("CUDA") ? "there is no NVIDIA driver" : "this build has no CUDA backend";
}

static void devices_that_cannot_be_used_are_refused_by_a_sentence(void **state) {
  refused("opencl:x", 2, "want opencl:N");
  refused("opencl:", 2, "want opencl:N");
  refused("opencl:99", 2, "this machine has");
  refused("cuda:x", 2, "want cuda:N");
  if (access("/dev/nvidiactl", F_OK)) refused("cuda", 1, cuda_is_missing());
  refused("cpu:x", 2, "want cpu, cpu:N, or cpu:N/D");
  refused("cpu:2/2", 2, "shared by 2 devices, want 0 to 1");
  refused("cpu:0/0", 2, "want cpu, cpu:N, or cpu:N/D");
  refused("tpu", 2, "want cpu or opencl[:N] or cuda[:N]");
  setenv("OCL_ICD_VENDORS", "/nonexistent", 1); /* the loader then finds no driver */
  refused("opencl", 1, "no platform has a device");
  unsetenv("OCL_ICD_VENDORS");
}

static void a_driver_that_aborts_is_a_sentence(void **state) {
  setenv("OPENCL_LAYERS", MR_OPENCL_LAYER, 1);
  setenv("LAYER_ABORT", "1", 1);
  RUN(&p, "doctor");
  bool layers = strstr(p.out, "ends the process that asks") != NULL;
  int status = p.status;
  if (layers) refused("opencl", 1, "(Aborted) and says: layer: Not enough memory");
  unsetenv("OPENCL_LAYERS"), unsetenv("LAYER_ABORT");
  assert_int_equal(status, 0);
  if (!layers) skip(); /* a loader without layers */
}

static void doctor_says_which_clblast_there_is(void **state) {
  RUN(&p, "doctor");
  if (!strstr(p.out, "\n  opencl-clblast ")) fail_msg("%s", p.out);
  if (!mr_built_in("CLBLAST")) skip();
  program_doctor_beside_junk(&p, "libclblast.so.1");
  if (!strstr(p.out, "  libclblast.so.1 cannot be loaded (/tmp/mr-junk-")) fail_msg("%s", p.out);
}

/* Within the default graph, whose batches may have 10,000 records. */
static void too_large_a_step_names_its_peak_and_what_is_free(void **state) {
  RUN(&p, "train", "--data", "synthetic", "--run-dir", other, "--device", "opencl", "batch=9000",
      "--steps", "1");
  if (p.status == 0) skip(); /* a device with that much memory */
  assert_non_null(strstr(p.err, "out of memory"));
  assert_non_null(strstr(p.err, "opencl"));
  assert_non_null(strstr(p.err, "fit="));
}

/* A forward pass has no fit=. */
static void too_large_a_forward_pass_asks_for_a_smaller_batch(void **state) {
  setenv("POCL_MEMORY_LIMIT", "1", 1); /* GB */
  RUN(&p, "bench", "infer", "--device", "opencl", "--layers", "1", "--batch", "1024", "--steps",
      "1", "--warm-up", "0");
  unsetenv("POCL_MEMORY_LIMIT");
  if (p.status == 0) skip(); /* a device with that much memory */
  assert_non_null(strstr(p.err, "out of memory: opencl: "));
  assert_non_null(strstr(p.err, "; take a smaller batch\n"));
}

static void a_limit_is_kept_by_the_devices_plan(void **state) {
  RUN(&p, "train", "--graph", file, "--run-dir", other, "--fit", "10KiB");
  assert_true(p.status != 0 && strstr(p.err, "fit"));
  RUN(&p, "train", "--graph", file, "--run-dir", other, "--fit", "64MiB", "--steps", "2");
  if (p.status) fail_msg("%s", p.err);
}

static int group_setup(void **state) {
  if (small_run("device", graph)) return -1;
  ledger_of(ledger);
  return 0;
}

int main(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  printf("[  SKIPPED ] device_under_a_sanitizer\n");
  printf("a driver's own compiler and threads are not built for a sanitizer\n");
  return 77;
#endif
  mr_diag_t diag = {0};
  const mr_device_t *device;
  if (mr_device_open("opencl", &device, &diag) < 0) {
    printf("%s\n[  SKIPPED ] device_without_a_device\n", diag.text);
    return 77; /* no device: ctest says that the test was left out */
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(a_killed_run_resumes_to_the_same_ledger, forget_other),
      cmocka_unit_test_teardown(a_checkpoint_is_that_of_a_run_that_ends_there, forget_other),
      cmocka_unit_test_teardown(a_run_resumes_on_the_processors, forget_other),
      cmocka_unit_test(a_checkpoint_is_evaluated_there_as_here),
      cmocka_unit_test_teardown(commands_held_back_change_nothing, forget_other),
      cmocka_unit_test_teardown(a_device_that_fails_ends_the_run_and_spares_the_checkpoint,
                                forget_other),
      cmocka_unit_test(devices_that_cannot_be_used_are_refused_by_a_sentence),
      cmocka_unit_test(a_driver_that_aborts_is_a_sentence),
      cmocka_unit_test(doctor_says_which_clblast_there_is),
      cmocka_unit_test_teardown(too_large_a_step_names_its_peak_and_what_is_free, forget_other),
      cmocka_unit_test(too_large_a_forward_pass_asks_for_a_smaller_batch),
      cmocka_unit_test_teardown(a_limit_is_kept_by_the_devices_plan, forget_other),
  };
  return cmocka_run_group_tests(tests, group_setup, small_run_forget);
}
