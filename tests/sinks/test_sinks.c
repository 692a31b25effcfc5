/* The sinks behind a stage that gives records and states of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/safetensors.h"
#include "base/xio.h"
#include "metrics/report.h"
#include "pipeline/graph/graph.h"
#include "pipeline/state.h"
#include "tests/sinks/states.h"
#include "tests/sinks/talk.h"

/* ---- a source of states: steps 10, 20, ... 50 ---- */

typedef struct save {
  int64_t next;
} save_t;

static float weight[4] = {1, 2, 3, 4};
static mr_st_tensor_t weight_tensor = {
    .name = "w", .dtype = MR_F32, .ndim = 1, .dim = {4}, .data = weight};

static bool resumed_run; /* what the states of `save` say */

static mr_err_t save_step(mr_stage_t *s) {
  save_t *t = s->state;
  mr_buf_t *b;
  if (t->next == 5) return MR_END;
  mr_err_t e = mr_fresh(s, 0, &b);
  if (e != MR_OK) return e;
  *(mr_state_t *)b->data = (mr_state_t){
      .step = 10 * ++t->next, .resumed = resumed_run, .n_tensors = 1, .tensor = &weight_tensor};
  return mr_push(s, 0, b);
}

static const mr_stage_def_t save_def = {
    .name = "save",
    .help = "Gives states.",
    .out = {{.name = "state", .flow = MR_FLOW_STATE}},
    .state_sz = sizeof(save_t),
    .plan = states_plan,
    .step = &(const mr_step_def_t){.run = save_step},
};

static const mr_stage_def_t *const own[] = {&talk_def, &save_def, NULL};

static int setup(void **state) { return talk_setup(own); }
static int teardown(void **state) { return talk_teardown(); }

static void progress_says_the_lines_that_scripts_read(void **state) {
  char *said = run_said("talk last=45 ! progress");
  assert_non_null(strstr(said, "SYNTHETIC DATA"));
  /* 10 images and half a second a step: 20 images/s, 25 steps left. */
  assert_non_null(
      strstr(said, "\nStep 20, Loss: 0.1250, Accuracy: 0.2500, 20.0 images/s, ETA 13s"));
  assert_non_null(strstr(said, "\nStep 40, Loss: 0.0625, Accuracy: 0.2500, 20.0 images/s, ETA 3s"));
  assert_null(strstr(said, "Step 30,"));
  assert_non_null(strstr(said, "\nTest, Loss: "));
  assert_non_null(strstr(said, "\ncat               0      7\n"));
  assert_non_null(strstr(said, "\nledger 0000000000abce1c\n")); /* 0xABCDEF + 45 */
  assert_null(strchr(said, '\r'));                              /* a file is no terminal */
  free(said);
}

static void count_skipped(mr_report_t *r) {
  if (r->kind == MR_REPORT_STEP)
    mr_report_add(r, MR_METRIC_OWN(SKIPPED_STEPS), r->step > 30 ? 2 : 0);
}

static void progress_counts_steps_that_were_skipped(void **state) {
  talk_before = count_skipped;
  char *said = run_said("talk last=45 ! progress");
  talk_before = NULL;
  assert_non_null(strstr(said, "\nStep 20, Loss: 0.1250, Accuracy: 0.2500, 20.0 images/s"));
  assert_non_null(
      strstr(said, "\nStep 40, Loss: 0.0625, Accuracy: 0.2500, Skipped steps: 2, 20.0 images/s"));
  free(said);
}

static void steps_known_from_before_a_kill_are_shown_as_coming_again(void **state) {
  char *said = run_said("talk first=31 last=60 ! progress 5 resume-reported=45");
  assert_non_null(strstr(said,
                         "\n"
                         "Steps 31 to 45 are repeated; they were reported before.\n"));
  assert_null(strstr(said, "Step 35,"));
  assert_null(strstr(said, "Step 45,"));
  assert_non_null(strstr(said, "\nRepeating step 35 until step 45, 20.0 images/s, ETA 13s"));
  assert_non_null(strstr(said, "\nRepeating step 45 until step 45, 20.0 images/s, "));
  assert_null(strstr(said, "Repeating step 50"));
  assert_non_null(strstr(said, "\nStep 50, "));
  assert_non_null(strstr(said, "\nStep 60, "));
  assert_non_null(strstr(said, "\nTest, Loss: "));
  free(said);
  said =
      run_said("talk first=31 last=60 ! progress 5 resume-reported=30"); /* stopped, not killed */
  assert_null(strstr(said, "are repeated"));
  assert_non_null(strstr(said, "\nStep 35, "));
  free(said);
}

static int lines_of(const char *text) {
  int n = 0;
  for (; (text = strchr(text, '\n')); text++) n++;
  return n;
}

static void jsonl_writes_one_object_a_record(void **state) {
  char text[192];
  mr_diag_t diag;
  snprintf(text, sizeof text, "talk last=3 ! jsonl path=%s/a/b/m.jsonl", dir);
  assert_int_equal(run(text, &diag), MR_OK);
  char *said = read_text("a/b/m.jsonl");
  assert_int_equal(lines_of(said), 5);
  cJSON *first = cJSON_ParseWithOpts(said, NULL, 0);
  assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(first, "kind")), "step");
  assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(first, "data")), "synthetic");
  assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(first, "ledger")),
                      "0000000000abcdf0");
  assert_true(cJSON_GetNumberValue(cJSON_GetObjectItem(first, "loss")) == 2.5);
  cJSON_Delete(first);
  assert_non_null(strstr(said, "\"confusion\":[[0,7],[0,0]],\"classes\":[\"cat\",\"dog\"]"));
  free(said);
}

static void resumed_jsonl_is_as_one_that_never_stopped(void **state) {
  char text[192], path[96];
  mr_diag_t diag;
  snprintf(text, sizeof text, "talk last=9 ! jsonl path=%s/whole", dir);
  assert_int_equal(run(text, &diag), MR_OK);
  snprintf(text, sizeof text, "talk last=7 ! jsonl path=%s/parts", dir);
  assert_int_equal(run(text, &diag), MR_OK);
  snprintf(path, sizeof path, "%s/parts", dir);
  FILE *f = fopen(path, "a");
  fputs("{\"kind\":\"step\",\"st", f); /* the write that a kill cut */
  fclose(f);
  snprintf(text, sizeof text, "talk first=5 last=9 ! jsonl path=%s/parts resume-step=4", dir);
  assert_int_equal(run(text, &diag), MR_OK);
  char *whole = read_text("whole"), *parts = read_text("parts");
  assert_int_equal(lines_of(parts), 11);
  /* total_steps differs: the first part was meant to end at 7. */
  const char *old = "\"total_steps\":7";
  for (char *at = strstr(parts, old); at; at = strstr(at, old)) at[strlen(old) - 1] = '9';
  assert_string_equal(parts, whole);
  free(whole);
  free(parts);
}

static void steps_that_an_earlier_file_lacks_are_said_at_resume(void **state) {
  static const char *const sink[] = {"jsonl", "csv"};
  char text[192], command[256], want[192];
  mr_diag_t diag;
  talk_depth = 64;
  for (int i = 0; i < 2; i++) {
    snprintf(text, sizeof text, "talk last=12 ! %s path=%s/hole", sink[i], dir);
    assert_int_equal(run(text, &diag), MR_OK);
    snprintf(text, sizeof text, "talk first=13 last=14 ! %s path=%s/hole resume-step=12", sink[i],
             dir);
    char *said = run_complains(text);
    assert_string_equal(said, ""); /* nothing is missing */
    free(said);
    snprintf(command, sizeof command,
             "cd %s && grep -vE '^(step,|.*\"step\":)(3|4|6|11|12),' hole >less; "
             "(cat less; head -c 500 /dev/zero) >hole",
             dir);
    assert_int_equal(system(command), 0);
    said = run_complains(text);
    snprintf(want, sizeof want, "%s/hole: has no records of 5 steps before this resume: %s\n", dir,
             "3 to 4, 6, 11 to 12");
    if (!strstr(said, want)) fail_msg("%s", said);
    free(said);
    said = read_text("hole");
    assert_non_null(strstr(said, i ? "\nstep,13," : "\"step\":13,")); /* behind no zeros */
    free(said);
  }
  talk_depth = 0;
}

static void a_pipe_is_resumed_without_reading_it(void **state) {
  static const char *const sink[] = {"jsonl", "csv"};
  char path[96], text[192], got[4096];
  mr_diag_t diag;
  snprintf(path, sizeof path, "%s/pipe", dir);
  assert_int_equal(mkfifo(path, 0600), 0);
  int end = open(path, O_RDONLY | O_NONBLOCK); /* and no writer, whom a reader would wait for */
  for (int i = 0; i < 2; i++) {
    snprintf(text, sizeof text, "talk first=3 last=4 ! %s path=%s resume-step=2", sink[i], path);
    assert_int_equal(run(text, &diag), MR_OK);
    ssize_t n = read(end, got, sizeof got - 1);
    assert_true(n > 0);
    got[n] = 0;
    assert_non_null(strstr(got, i ? "\nstep,3," : "\"step\":3,"));
  }
  close(end);
}

static void a_validation_that_comes_again_is_not_said_twice(void **state) {
  char text[192], path[96], *left;
  mr_diag_t diag;
  for (int done = 0; done < 2; done++) {
    snprintf(path, sizeof path, "%s/valid", dir);
    FILE *f = fopen(path, "w");
    fputs("{\"kind\":\"valid\",\"step\":2}\n{\"kind\":\"valid\",\"step\":4}\n", f);
    fclose(f);
    snprintf(text, sizeof text, "talk first=5 last=5 ! jsonl path=%s resume-step=4 resume-valid=%s",
             path, done ? "true" : "false");
    assert_int_equal(run(text, &diag), MR_OK);
    left = read_text("valid");
    assert_non_null(strstr(left, "\"valid\",\"step\":2"));
    assert_true(done == (strstr(left, "\"valid\",\"step\":4") != NULL));
    free(left);
  }
}

static void checkpoints_of_the_run_before_a_resume_count_too(void **state) {
  char text[192], path[128];
  mr_diag_t diag;
  snprintf(path, sizeof path, "%s/d", dir);
  assert_int_equal(mkdir(path, 0755), 0);
  const char *name[] = {"step-000003.safetensors", "step-000007.safetensors",
                        "step-7x.safetensors"};
  for (int i = 0; i < 3; i++) {
    snprintf(path, sizeof path, "%s/d/%s", dir, name[i]);
    FILE *f = fopen(path, "w");
    fclose(f);
  }
  snprintf(text, sizeof text, "save ! checkpoint dir=%s/d keep=6", dir);
  assert_int_equal(run(text, &diag), MR_OK);
  for (int i = 0; i < 3; i++) { /* the oldest of seven goes; what is not ours stays */
    snprintf(path, sizeof path, "%s/d/%s", dir, name[i]);
    assert_int_equal(access(path, F_OK), i ? 0 : -1);
  }
}

/* A kill between writing and removing, or a larger keep before, leaves more files than `keep`. */
static void surplus_checkpoints_from_before_a_resume_are_removed(void **state) {
  char text[192], path[160];
  mr_diag_t diag;
  snprintf(path, sizeof path, "%s/s", dir);
  assert_int_equal(mkdir(path, 0755), 0);
  for (int step = 1; step <= 9; step++) { /* in an order that readdir need not keep */
    snprintf(path, sizeof path, "%s/s/step-%06d.safetensors", dir, step * 7 % 10);
    FILE *f = fopen(path, "w");
    fclose(f);
  }
  snprintf(path, sizeof path, "%s/s/step-000099.safetensors", dir);
  fclose(fopen(path, "w")); /* newer than what this run writes */
  snprintf(text, sizeof text, "save ! checkpoint dir=%s/s keep=20", dir);
  assert_int_equal(run(text, &diag), MR_OK); /* 10, 20, .., 50 */
  snprintf(text, sizeof text, "save ! checkpoint dir=%s/s keep=6", dir);
  assert_int_equal(run(text, &diag),
                   MR_OK); /* another run's files stay, but one for each written */
  snprintf(path, sizeof path, "%s/s/step-000001.safetensors", dir);
  assert_int_equal(access(path, F_OK), 0);
  resumed_run = true;
  assert_int_equal(run(text, &diag), MR_OK);
  resumed_run = false;
  for (int step = 1; step <= 9; step++) {
    snprintf(path, sizeof path, "%s/s/step-%06d.safetensors", dir, step);
    assert_int_equal(access(path, F_OK), -1);
  }
  for (int step = 10; step <= 50; step += 10) {
    snprintf(path, sizeof path, "%s/s/step-%06d.safetensors", dir, step);
    assert_int_equal(access(path, F_OK), 0);
  }
  snprintf(path, sizeof path, "%s/s/step-000099.safetensors", dir);
  assert_int_equal(access(path, F_OK), 0);
}

static void checkpoint_keeps_the_newest_and_points_to_it(void **state) {
  char text[192], path[128], link[64] = "";
  mr_diag_t diag;
  struct stat st;
  snprintf(text, sizeof text, "save ! checkpoint dir=%s/c keep=2", dir);
  assert_int_equal(run(text, &diag), MR_OK);
  snprintf(path, sizeof path, "%s/c/latest", dir);
  assert_true(readlink(path, link, sizeof link - 1) > 0);
  assert_string_equal(link, "step-000050.safetensors");
  mr_safetensors_t *f;
  assert_int_equal(mr_safetensors_open(path, &f, &diag), MR_OK);
  assert_memory_equal(mr_safetensors_find(f, "w")->data, weight, sizeof weight);
  mr_safetensors_close(f);
  snprintf(path, sizeof path, "%s/c/step-000040.safetensors", dir);
  assert_int_equal(stat(path, &st), 0);
  snprintf(path, sizeof path, "%s/c/step-000030.safetensors", dir);
  assert_int_equal(stat(path, &st), -1);
}

static void unwritable_folders_are_said_before_the_first_step(void **state) {
  mr_diag_t diag;
  assert_int_equal(run("save ! checkpoint dir=/proc/nowhere/c", &diag), MR_ERR_IO);
  assert_non_null(strstr(diag.text, "checkpoint: /proc/nowhere"));
  assert_int_equal(run("talk ! jsonl path=/proc/nowhere/m.jsonl", &diag), MR_ERR_IO);
  assert_non_null(strstr(diag.text, "jsonl: /proc/nowhere"));
}

static void a_full_disk_fails_the_run_only_at_its_end(void **state) {
  mr_diag_t diag;
  char text[128];
  snprintf(text, sizeof text, "talk last=40 name=t  t. ! jsonl path=/dev/full  t. ! csv path=%s/m",
           dir);
  talk_depth = 64; /* no record is lost on its way */
  assert_int_equal(run(text, &diag), MR_ERR_IO);
  talk_depth = 0;
  assert_non_null(strstr(diag.text, "jsonl: /dev/full: 42 records could not be written"));
  char *table = read_text("m");
  assert_non_null(strstr(table, "\nfinal,40,"));
  free(table);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {
      CASE(progress_says_the_lines_that_scripts_read),
      CASE(progress_counts_steps_that_were_skipped),
      CASE(steps_known_from_before_a_kill_are_shown_as_coming_again),
      CASE(jsonl_writes_one_object_a_record),
      CASE(resumed_jsonl_is_as_one_that_never_stopped),
      CASE(steps_that_an_earlier_file_lacks_are_said_at_resume),
      CASE(a_pipe_is_resumed_without_reading_it),
      CASE(a_validation_that_comes_again_is_not_said_twice),
      CASE(checkpoints_of_the_run_before_a_resume_count_too),
      CASE(surplus_checkpoints_from_before_a_resume_are_removed),
      CASE(checkpoint_keeps_the_newest_and_points_to_it),
      CASE(unwritable_folders_are_said_before_the_first_step),
      CASE(a_full_disk_fails_the_run_only_at_its_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
