/* millrace who: what it says of a step is what the step's batch holds, and of a record, where it
   is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "tests/apps/program.h"

static program_t p;
static char dir[64];

static void said(int status, const char *on_out) {
  if (p.status != status || !strstr(status ? p.err : p.out, on_out))
    fail_msg("status %d, expected %d with \"%s\": %s%s", p.status, status, on_out, p.out, p.err);
}

static const char streamed[] =
    "synthetic name=s n=90 ! shuffle seed=5 epochs=3 ! flip ! resized-crop scale=0.3:1 ! batch 16 "
    "! "
    "null";

/* Ids of a step by millrace batch. */
static int keys_of(const char *graph, int step, unsigned long long *key) {
  char number[16];
  int n = 0;
  snprintf(number, sizeof number, "%d", step);
  RUN(&p, "batch", graph, "--step", number);
  said(0, "keys");
  char *at = strstr(p.out, "keys") + 4, *end;
  for (;; at = end) {
    unsigned long long k = strtoull(at, &end, 10);
    if (end == at) return n;
    key[n++] = k;
  }
}

static double number(const cJSON *o, const char *name) {
  const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, name);
  if (!cJSON_IsNumber(v)) fail_msg("no %s", name);
  return v->valuedouble;
}

static void expect_steps_of(const char *graph) {
  unsigned long long key[64];
  for (int step = 1; step <= 18; step += 4) {
    int n = keys_of(graph, step, key), k = 0;
    char text[16], *save = NULL;
    snprintf(text, sizeof text, "%d", step);
    RUN(&p, "who", graph, "--step", text, "--json");
    assert_int_equal(p.status, 0);
    for (char *line = strtok_r(p.out, "\n", &save); line; line = strtok_r(NULL, "\n", &save), k++) {
      cJSON *o = cJSON_Parse(line);
      assert_non_null(o);
      assert_in_range(k, 0, n - 1);
      assert_int_equal((int)number(o, "slot"), k);
      assert_true(number(o, "id") == (double)key[k]);
      const cJSON *from = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(o, "from"), 0);
      assert_true(number(from, "index") == (double)key[k]);
      assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(o, "draws")), 2);
      cJSON_Delete(o);
    }
    assert_int_equal(k, n);
  }
}

static void the_records_of_a_step_are_those_of_its_batch(void **state) {
  expect_steps_of(streamed);
}

static void also_behind_a_stage_that_makes_other_batches(void **state) {
  expect_steps_of(
      "synthetic name=s n=90 ! shuffle seed=5 epochs=3 ! flip ! resized-crop ! batch 16 ! rebatch "
      "14 "
      "! identity ! null");
  expect_steps_of(/* from the first batch on, as no command can know where step N begins */
                  "synthetic name=s n=120 ! filter p=0.9 ! shuffle seed=5 epochs=3 ! flip ! "
                  "resized-crop ! batch "
                  "16 ! rebatch 15 ! null");
}

static void the_steps_of_a_record_are_all_that_hold_it(void **state) {
  unsigned long long key[18][64];
  int n[18], found = 0;
  char want[64];
  for (int s = 0; s < 18; s++) n[s] = keys_of(streamed, s + 1, key[s]);
  RUN(&p, "who", streamed, "--record", "41");
  for (int s = 0; s < 18; s++)
    for (int i = 0; i < n[s]; i++) {
      if (key[s][i] != 41) continue;
      found++;
      snprintf(want, sizeof want, "step %d, epoch %d, slot %d\n", s + 1, s / 6 + 1, i);
      said(0, want);
    }
  assert_int_equal(found, 3);
  int lines = 0;
  for (const char *at = p.out; (at = strchr(at, '\n')); at++) lines++;
  assert_int_equal(lines, 3);
  RUN(&p, "who", streamed, "--record", "90");
  said(0, "no step saw it");
}

static void numbers_of_a_range_have_places_too(void **state) {
  RUN(&p, "who", "range 11 ! slice 2:9 ! batch 4 ! null", "--record", "7");
  assert_string_equal(p.out, "step 2, epoch 1, slot 1\n");
}

static void draws_come_in_words(void **state) {
  RUN(&p, "who",
      "synthetic n=9 ! shuffle ! flip p=1 ! resized-crop scale=1:1 ratio=1:1 ! batch 9 ! "
      "null",
      "--step", "1");
  said(0, "flip: mirrored; resized-crop: rows 0-31, columns 0-31");
}

static void a_filtered_and_mixed_stream_is_answered_too(void **state) {
  static const char mixed[] =
      "synthetic name=a n=40 ! filter 0,1,2 ! mix.a synthetic name=b n=50 split=test ! mix.b "
      "mix name=mix weights=1,2 ! batch 8 ! null";
  RUN(&p, "who", mixed, "--step", "2");
  said(0, "step 2, epoch 1: 8 records");
  said(0, " b ");
}

static void a_run_answers_for_what_it_has_done(void **state) {
  char run[96];
  snprintf(run, sizeof run, "%s/run", dir);
  RUN(&p, "train", "--data", "synthetic", "--run-dir", run, "--steps", "3", "batch=4", "embed=24",
      "heads=2", "layers=1", "mlp=32");
  assert_int_equal(p.status, 0);
  RUN(&p, "who", run, "--step", "2");
  said(0, "step 2, epoch 1: 4 records");
  char id[32];
  unsigned long long key[64];
  assert_int_equal(keys_of(run, 2, key), 4);
  snprintf(id, sizeof id, "%llu", key[3]);
  RUN(&p, "who", run, "--record", id);
  assert_string_equal(p.out, "step 2, epoch 1, slot 3\n");
  assert_int_equal(keys_of(run, 4, key), 4); /* not done */
  snprintf(id, sizeof id, "%llu", key[0]);
  RUN(&p, "who", run, "--record", id);
  assert_string_equal(p.out, "no step saw it\n");
  RUN(&p, "who", run, "--record", id, "--steps", "4", "--json");
  assert_string_equal(p.out, "{\"step\":4,\"epoch\":1,\"slot\":0}\n");
}

/* The run of the test before has made three steps. */
static void a_step_that_a_run_has_not_made_is_shown_as_such(void **state) {
  static const char *const command[] = {"who", "batch"};
  char run[96], note[256];
  snprintf(run, sizeof run, "%s/run", dir);
  snprintf(note, sizeof note,
           "millrace: %s has done 3 steps: step 4 has not run yet; these are the records that it "
           "would have\n",
           run);
  for (int i = 0; i < 2; i++) {
    RUN(&p, command[i], run, "--step", "4");
    said(0, "step 4, epoch 1: 4 records");
    assert_string_equal(p.err, note);
    RUN(&p, command[i], run, "--step", "3");
    said(0, "step 3, epoch 1: 4 records");
    assert_string_equal(p.err, "");
  }
}

static void steps_left_out_are_said(void **state) {
  RUN(&p, "who", "synthetic n=9 ! shuffle ! batch 3 skip-steps=2-3 ! null", "--step", "2");
  said(0, "step 2, epoch 1: 0 records, skipped by skip-steps");
}

static void records_left_out_are_said(void **state) {
  static const char graph[] =
      "range 11 skip-records=3,5 ! filter modulo=2 remainder=1:1 ! batch 2 ! null";
  RUN(&p, "who", graph, "--record", "3");
  assert_string_equal(p.out, "step 1, epoch 1, slot 1  (excluded)\n");
  if (!strstr(p.err, "each step is looked through, as behind stage filter")) fail_msg("%s", p.err);
  RUN(&p, "who", "range 11 skip-records=3,5 ! batch 2 ! null", "--record", "3");
  assert_string_equal(p.out, "step 2, epoch 1, slot 1  (excluded)\n");
  assert_string_equal(p.err, "");
  RUN(&p, "who", graph, "--record", "5", "--json");
  assert_string_equal(p.out, "{\"step\":2,\"epoch\":1,\"slot\":0,\"left_out\":true}\n");
  RUN(&p, "who", graph, "--record", "7");
  assert_string_equal(p.out, "step 2, epoch 1, slot 1\n");
}

static void wrong_questions_are_refused(void **state) {
  RUN(&p, "who", streamed);
  said(2, "give one of --step N and --record ID");
  RUN(&p, "who", streamed, "--step", "1", "--record", "1");
  said(2, "give one of --step N and --record ID");
  RUN(&p, "who", streamed, "--step", "19");
  said(2, "the stream has steps 1 to 18");
  RUN(&p, "who", streamed, "--record", "x1");
  said(2, "\"x1\", expected an id");
  RUN(&p, "who", streamed, "--record", "1", "--source", "q");
  said(2, "no stage is called \"q\"");
}

static int setup(void **state) {
  strcpy(dir, "/tmp/mr-who-XXXXXX");
  return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state) { return program_forget(dir); }

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_records_of_a_step_are_those_of_its_batch),
      cmocka_unit_test(also_behind_a_stage_that_makes_other_batches),
      cmocka_unit_test(the_steps_of_a_record_are_all_that_hold_it),
      cmocka_unit_test(numbers_of_a_range_have_places_too),
      cmocka_unit_test(draws_come_in_words),
      cmocka_unit_test(a_filtered_and_mixed_stream_is_answered_too),
      cmocka_unit_test(a_run_answers_for_what_it_has_done),
      cmocka_unit_test(a_step_that_a_run_has_not_made_is_shown_as_such),
      cmocka_unit_test(steps_left_out_are_said),
      cmocka_unit_test(records_left_out_are_said),
      cmocka_unit_test(wrong_questions_are_refused),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
