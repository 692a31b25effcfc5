/* vit-step loss-scale=dynamic: it falls while gradients overflow, leaves those steps out, grows
   again, and goes through checkpoints and resuming. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include <cjson/cJSON.h>

#include "base/safetensors.h"
#include "base/xio.h"
#include "tests/apps/small_run.h"

enum { STEPS = 12, PATIENCE = 2 };

/* A rate so high that some gradients grow past what the first scale leaves room for. */
static const char graph[] =
    "let run = unset\n"
    "synthetic n=48 split=train ! shuffle seed=1 epochs=2 ! normalize preset=cifar10\n"
    "  ! batch 8 drop-remainder\n"
    "  ! vit-step name=train layers=1 embed=16 mlp=16 heads=2 lr=1 checkpoint-every=1\n"
    "    loss-scale=dynamic loss-scale-start=1.7e38 loss-scale-patience=2\n"
    "train.metrics ! jsonl path=$run/metrics.jsonl\n"
    "train.state ! checkpoint dir=$run/checkpoints keep=0\n";

static int group_setup(void **state) { return small_run("scale", graph); }

/* A checkpoint's file: its bytes. */
static void *bytes_of(const char *run, int step, size_t *n) {
  char path[192];
  void *bytes;
  snprintf(path, sizeof path, "%s/checkpoints/step-%06d.safetensors", run, step);
  assert_int_equal(mr_read_file(path, 1 << 24, &bytes, n, NULL), MR_OK);
  return bytes;
}

/* The scale's state in it, and a copy of its parameters and moments. */
typedef struct at {
  float scale;
  int good, bad, resets, skipped;
  float *values;
  size_t n;
} at_t;

static at_t values_at(const char *run, int step) {
  char path[192];
  mr_safetensors_t *f = NULL;
  mr_diag_t diag = {0};
  at_t a = {0};
  snprintf(path, sizeof path, "%s/checkpoints/step-%06d.safetensors", run, step);
  if (mr_safetensors_open(path, &f, &diag) < 0) fail_msg("%s", diag.text);
  const char *text = mr_safetensors_meta(f, "millrace.loss_scale");
  int reported =
      text ? sscanf(text, "%f %d %d %d %d", &a.scale, &a.good, &a.bad, &a.resets, &a.skipped) : 0;
  if (reported != 5) a.scale = 0; /* of a fixed scale */
  for (int i = 0; i < mr_safetensors_count(f); i++) {
    const mr_st_tensor_t *t = mr_safetensors_at(f, i);
    size_t n = 1;
    for (int d = 0; d < t->ndim; d++) n *= (size_t)t->dim[d];
    if (t->dtype != MR_F32) continue;
    a.values = realloc(a.values, (a.n + n) * sizeof(float));
    assert_non_null(a.values);
    memcpy(a.values + a.n, t->data, n * sizeof(float));
    a.n += n;
  }
  mr_safetensors_close(f);
  return a;
}

static at_t at_step(const char *run, int step) {
  at_t a = values_at(run, step);
  assert_true(a.scale > 0);
  return a;
}

static void steps_that_overflow_change_nothing_and_the_scale_follows_its_rule(void **state) {
  at_t before = at_step(whole, 1);
  int skipped = 0, grown = 0;
  for (int step = 2; step <= STEPS; step++) {
    at_t now = at_step(whole, step);
    bool same = !memcmp(now.values, before.values, now.n * sizeof(float));
    if (now.skipped > before.skipped) {
      assert_true(same && now.scale == before.scale / 2 && now.good == 0);
      assert_true(now.bad == before.bad + 1 && now.resets == before.resets + 1);
      skipped++;
    } else {
      bool full = before.good == PATIENCE;
      assert_true(!same && now.scale == (full ? fminf(2 * before.scale, 0x1p127f) : before.scale));
      assert_true(now.bad == 0 && now.good == (full ? 0 : before.good + 1));
      grown += full;
    }
    for (size_t i = 0; i < now.n; i++) assert_true(now.values[i] - now.values[i] == 0);
    free(before.values);
    before = now;
  }
  free(before.values);
  if (skipped < 2 || grown < 1) fail_msg("%d steps left out, %d times grown", skipped, grown);
}

static void a_resumed_run_ends_with_the_same_bytes(void **state) {
  static const int stop[] = {2, 7};
  for (int i = 0; i < 2; i++) {
    char steps[32];
    size_t n, m;
    snprintf(steps, sizeof steps, "train.steps=%d", stop[i]);
    assert_int_equal(program_forget(other), 0);
    RUN(&p, "train", "--graph", file, "--run-dir", other, steps);
    assert_int_equal(p.status, 0);
    RUN(&p, "train", "--run-dir", other, "--resume", "train.steps=0");
    if (p.status) fail_msg("%s%s", p.out, p.err);
    void *x = bytes_of(whole, STEPS, &n), *y = bytes_of(other, STEPS, &m);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    free(x), free(y);
  }
}

/* ---- redo-on-nan: gradients that overflow at 2^126 and few that do at 1 ---- */

#define AGAIN "train.loss-scale-start=8.507059173023462e37"

static void run_again(const char *run, const char *setting, const char *more) {
  assert_int_equal(program_forget(run), 0);
  RUN(&p, "train", "--graph", file, "--run-dir", run, AGAIN, setting, more);
  if (p.status) fail_msg("%s%s", p.out, p.err);
}

/* With enough tries no step is skipped, and as a power of two changes no bit, the run is the one
   without a scale. */
static void steps_run_again_are_those_without_a_scale(void **state) {
  char again[112], plain[112];
  snprintf(again, sizeof again, "%s/again", dir), snprintf(plain, sizeof plain, "%s/plain", dir);
  run_again(again, "train.redo-on-nan=20", "train.b1=0.9");
  run_again(plain, "train.loss-scale=1", "train.b1=0.9");
  float before = 0x1p126f;
  int resets = 0, halved = 0;
  for (int step = 1; step <= STEPS; step++) {
    at_t a = at_step(again, step), b = values_at(plain, step);
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.values, b.values, a.n * sizeof(float));
    assert_true(!a.skipped && !a.bad && a.resets >= resets);
    /* a finite try comes last, and may double */
    halved += a.resets - resets;
    float down = ldexpf(before, resets - a.resets);
    assert_true(a.scale == down || (a.good == 0 && a.scale == fminf(2 * down, 0x1p127f)));
    before = a.scale, resets = a.resets;
    free(a.values), free(b.values);
  }
  assert_true(halved >= 2);
}

/* Tries count as one step: it is skipped once they are used up. */
static void a_step_is_skipped_after_the_last_try(void **state) {
  char once[112];
  snprintf(once, sizeof once, "%s/once", dir);
  run_again(once, "train.redo-on-nan=1", "train.b1=0.9");
  at_t was = at_step(once, 1);
  int skipped = 0;
  for (int step = 2; step <= STEPS; step++) {
    at_t now = at_step(once, step);
    bool same = !memcmp(now.values, was.values, now.n * sizeof(float));
    int tries = now.resets - was.resets;
    assert_int_equal(same, now.skipped > was.skipped);
    if (same) assert_true(tries == 2 && now.skipped == was.skipped + 1 && now.bad == was.bad + 1);
    if (!same) assert_true(tries <= 1 && !now.bad && now.skipped == was.skipped);
    skipped += same;
    free(was.values);
    was = now;
  }
  free(was.values);
  assert_true(skipped >= 1);
}

static void a_killed_run_ends_with_the_same_bytes(void **state) {
  char again[112], killed[112], path[192];
  size_t n, m;
  snprintf(again, sizeof again, "%s/again", dir), snprintf(killed, sizeof killed, "%s/killed", dir);
  FILE *out = tmpfile();
  snprintf(path, sizeof path, "%s/checkpoints/step-000003.safetensors", killed);
  const char *words[] = {
      "train",        "--graph", file, "--run-dir", killed, AGAIN, "train.redo-on-nan=20",
      "train.b1=0.9", NULL};
  pid_t pid = program_start(words, out, out);
  for (int i = 0; access(path, R_OK) && i < 30000; i++) usleep(1000);
  kill(pid, SIGKILL);
  program_wait(pid);
  fclose(out);
  RUN(&p, "train", "--run-dir", killed, "--resume");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  void *x = bytes_of(again, STEPS, &n), *y = bytes_of(killed, STEPS, &m);
  assert_int_equal(n, m);
  assert_memory_equal(x, y, n);
  free(x), free(y);
}

/* What metrics.jsonl says the scale of a step was. */
static void the_metric_is_the_scale_that_a_step_had(void **state) {
  char path[192], *save = NULL;
  void *bytes;
  size_t n;
  int seen = 0;
  snprintf(path, sizeof path, "%s/metrics.jsonl", whole);
  assert_int_equal(mr_read_file(path, 1 << 24, &bytes, &n, NULL), MR_OK);
  ((char *)bytes)[n - 1] = 0;
  for (char *line = strtok_r(bytes, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
    cJSON *j = cJSON_Parse(line);
    const cJSON *kind = cJSON_GetObjectItemCaseSensitive(j, "kind");
    int step = (int)cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(j, "step"));
    if (cJSON_IsString(kind) && !strcmp(kind->valuestring, "step")) {
      double reported = cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(j, "loss_scale"));
      at_t before = {.scale = 1.7e38f};
      if (step > 1) before = at_step(whole, step - 1);
      assert_true((float)reported == before.scale);
      free(before.values);
      seen++;
    }
    cJSON_Delete(j);
  }
  free(bytes);
  assert_int_equal(seen, STEPS);
}

static void wrong_settings_are_refused_and_said(void **state) {
  char fresh[112];
  snprintf(fresh, sizeof fresh, "%s/fresh", dir);
  RUN(&p, "train", "--graph", file, "--run-dir", fresh, "train.loss-scale=big");
  assert_int_equal(p.status, 2);
  assert_non_null(
      strstr(p.err, "setting loss-scale = big: want a number of [1e-9,1e+09], or dynamic"));
  RUN(&p, "train", "--graph", file, "--run-dir", fresh, "train.loss-scale=8",
      "train.redo-on-nan=2");
  assert_int_equal(p.status, 2);
  assert_non_null(strstr(p.err,
                         "setting redo-on-nan = 2: with a fixed loss-scale a step run again "
                         "gives the same result, want loss-scale=dynamic beside it"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(steps_that_overflow_change_nothing_and_the_scale_follows_its_rule),
      cmocka_unit_test(a_resumed_run_ends_with_the_same_bytes),
      cmocka_unit_test(steps_run_again_are_those_without_a_scale),
      cmocka_unit_test(a_step_is_skipped_after_the_last_try),
      cmocka_unit_test(a_killed_run_ends_with_the_same_bytes),
      cmocka_unit_test(the_metric_is_the_scale_that_a_step_had),
      cmocka_unit_test(wrong_settings_are_refused_and_said),
  };
  return cmocka_run_group_tests(tests, group_setup, small_run_forget);
}
