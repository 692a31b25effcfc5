/* Alerts of real runs: what each is caused by, what its command receives, and the exit status. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/xio.h"
#include "tests/apps/program.h"

static char dir[64], text[1024], reported_at[128];
static const char *all_every; /* how often is measured */
static program_t p;

static int setup(void **state) {
  strcpy(dir, "/tmp/mr-alerts-XXXXXX");
  if (!mkdtemp(dir)) return -1;
  snprintf(reported_at, sizeof reported_at, "%s/told", dir);
  all_every = "all.every=0";
  return 0;
}

static int teardown(void **state) { return program_forget(dir); }

/* Runs 60 steps of a small model whose batches come through a stage, with settings of the step and
   of the alert; returns what the alert's command wrote, "" for nothing (static).  The rings hold
   every record of the run, so that none is dropped on a busy machine. */
static const char *reported(const char *through, const char *step, const char *alert) {
  static char said[256];
  snprintf(
      text, sizeof text,
      "synthetic n=960 ! shuffle seed=1 epochs=1 ! normalize ! batch 16 ! %s vit-step name=train "
      "layers=1 embed=16 mlp=16 heads=2 dropout=0 %s  train.metrics ! telemetry name=all "
      "all. ! progress  all. ! alert %s command='echo $$MILLRACE_ALERT $$MILLRACE_STEP "
      "$$MILLRACE_TEXT >> %s'",
      through, step, alert, reported_at);
  RUN(&p, "run", text, "--depth", "128", all_every);
  FILE *f = fopen(reported_at, "r");
  said[f ? fread(said, 1, sizeof said - 1, f) : 0] = 0;
  if (f) fclose(f);
  return said;
}

#define SKIPPING "on-nan=skip max-skipped=1000"

static void expect(const char *said, const char *begins, int status) {
  if (strncmp(said, begins, strlen(begins)) || p.status != status)
    fail_msg("told \"%s\" with status %d, want \"%s...\" with %d: %s", said, p.status, begins,
             status, p.err);
}

static void a_sound_run_ends_with_0_and_tells_nothing(void **state) {
  all_every = "all.every=1e6"; /* measured at the end alone, of the whole run */
  assert_string_equal(reported("", "", "fail plateau=50 stall=1 disk=1"), "");
  assert_int_equal(p.status, 0);
}

static void a_loss_that_leaves_the_numbers_ends_with_1_after_the_last_step(void **state) {
  expect(reported("", "lr=100 optimizer=sgd " SKIPPING, "fail"), "nan ", 1);
  assert_non_null(strstr(p.err, "alert: nan at step "));
  assert_non_null(strstr(p.out, "Done: 60 steps"));
}

static void a_step_that_ends_the_run_raises_an_alert_too(void **state) {
  expect(reported("", "lr=100 optimizer=sgd on-nan=stop", ""), "nan ", 1);
  assert_non_null(strstr(p.err, "alert: nan at step 4: stopped: step 4: the loss is nan"));
  assert_null(strstr(p.out, "Done: 60 steps"));
}

static void without_fail_an_alert_leaves_the_status_alone(void **state) {
  expect(reported("", "lr=100 optimizer=sgd " SKIPPING, ""), "nan ", 0);
}

static void a_rate_of_zero_is_a_plateau(void **state) {
  expect(reported("", "lr=0", "fail plateau=20"), "plateau ", 1);
}

static void slow_data_are_a_stall(void **state) {
  expect(reported("delay us=1000000 asleep !", "steps=6", "fail stall=0.5"), "stall ", 1);
  assert_non_null(strstr(p.err, "train waits for data for "));
}

static void a_full_disk_is_one(void **state) {
  expect(reported("", "", "fail disk=1e18"), "disk ", 1);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {
      CASE(a_sound_run_ends_with_0_and_tells_nothing),
      CASE(a_loss_that_leaves_the_numbers_ends_with_1_after_the_last_step),
      CASE(a_step_that_ends_the_run_raises_an_alert_too),
      CASE(without_fail_an_alert_leaves_the_status_alone),
      CASE(a_rate_of_zero_is_a_plateau),
      CASE(slow_data_are_a_stall),
      CASE(a_full_disk_is_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
