/* vit-step ema=: an average of the weights goes through evaluation, checkpoints and resuming. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "base/safetensors.h"
#include "base/xio.h"
#include "tests/apps/small_run.h"

enum { STEPS = 12 };
static const float decay = 0.75f;

static const char graph[] =
    "let run = unset\n"
    "synthetic n=48 split=train ! shuffle seed=1 epochs=2 ! normalize preset=cifar10\n"
    "  ! batch 8 drop-remainder\n"
    "  ! vit-step name=train layers=1 embed=16 mlp=16 heads=2 ema=0.75 lr=1e-2 checkpoint-every=1\n"
    "synthetic n=32 split=test ! sequential epochs=1 ! normalize preset=cifar10\n"
    "  ! batch 16 ! train.test\n"
    "train.metrics ! jsonl path=$run/metrics.jsonl\n"
    "train.state ! checkpoint dir=$run/checkpoints keep=0\n";

static int group_setup(void **state) { return small_run("average", graph); }

static void checkpoint_path(const char *run, int step, char path[192]) {
  snprintf(path, 192, "%s/checkpoints/step-%06d.safetensors", run, step);
}

static mr_safetensors_t *checkpoint(const char *run, int step) {
  mr_safetensors_t *f = NULL;
  mr_diag_t diag = {0};
  char path[192];
  checkpoint_path(run, step, path);
  if (mr_safetensors_open(path, &f, &diag) < 0) fail_msg("%s", diag.text);
  return f;
}

static const char weight[] = "head.kernel";

static const mr_st_tensor_t *tensor(const mr_safetensors_t *f, const char *group) {
  char name[64];
  snprintf(name, sizeof name, "%s/%s", group, weight);
  const mr_st_tensor_t *t = mr_safetensors_find(f, name);
  if (!t) fail_msg("no tensor %s", name);
  return t;
}

/* Adds the weights of steps [first,STEPS] as optax.ema does, and compares the sum, divided by
   1 - decay^n, with each step's average. */
static void averages_are_debiased(const char *run, int first) {
  double sum[160] = {0};
  for (int step = first; step <= STEPS; step++) {
    mr_safetensors_t *now = checkpoint(run, step);
    const mr_st_tensor_t *t = tensor(now, "ema");
    const float *to = t->data, *w = tensor(now, "params")->data;
    int64_t n = t->dim[0] * t->dim[1], moved = 0;
    double of = 1 - pow((double)decay, step - first + 1);
    assert_int_equal(n, 160);
    for (int64_t i = 0; i < n; i++) {
      sum[i] = (double)decay * sum[i] + (1 - (double)decay) * (double)w[i];
      if (!(fabs((double)to[i] - sum[i] / of) <= 1e-6 * (1e-3 + fabs(sum[i] / of))))
        fail_msg("step %d, value %d: %.9g, want %.9g", step, (int)i, (double)to[i], sum[i] / of);
      moved += to[i] != w[i];
    }
    assert_true(step == first || moved > n / 2);
    mr_safetensors_close(now);
  }
}

static void an_average_is_of_the_steps_that_were_taken(void **state) {
  averages_are_debiased(whole, 1);
}

static void a_resumed_run_continues_with_the_same_average(void **state) {
  char path[192];
  void *x, *y;
  size_t n, m;
  RUN(&p, "train", "--graph", file, "--run-dir", other, "train.steps=5");
  assert_int_equal(p.status, 0);
  RUN(&p, "train", "--run-dir", other, "--resume", "train.steps=0");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  checkpoint_path(whole, STEPS, path);
  assert_int_equal(mr_read_file(path, 1 << 24, &x, &n, NULL), MR_OK);
  checkpoint_path(other, STEPS, path);
  assert_int_equal(mr_read_file(path, 1 << 24, &y, &m, NULL), MR_OK);
  assert_int_equal(n, m);
  assert_memory_equal(x, y, n);
  free(x), free(y);
}

/* The loss of the last line of that kind. */
static double loss_in(const char *path, const char *kind) {
  char *save = NULL;
  void *bytes;
  size_t n;
  double loss = -1;
  assert_int_equal(mr_read_file(path, 1 << 24, &bytes, &n, NULL), MR_OK);
  ((char *)bytes)[n - 1] = 0;
  for (char *line = strtok_r(bytes, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
    cJSON *j = cJSON_Parse(line);
    const cJSON *is = cJSON_GetObjectItemCaseSensitive(j, "kind");
    if (cJSON_IsString(is) && !strcmp(is->valuestring, kind))
      loss = cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(j, "loss"));
    cJSON_Delete(j);
  }
  free(bytes);
  return loss;
}

/* The loss of the run's last checkpoint over the records the run was tested on. */
static double evaluated(const char *ema) {
  char text[512], out[128], eval[128];
  snprintf(out, sizeof out, "%s/eval.jsonl", dir);
  snprintf(eval, sizeof eval, "%s/eval.mr", dir);
  int n =
      snprintf(text, sizeof text,
               "synthetic n=32 split=test ! sequential epochs=1 ! normalize preset=cifar10 ! "
               "batch 16\n  ! vit-eval checkpoint=%s/checkpoints/latest ema=%s ! jsonl path=%s\n",
               whole, ema, out);
  remove(out);
  assert_int_equal(mr_write_file(eval, text, (size_t)n, NULL), MR_OK);
  RUN(&p, "run", eval);
  if (p.status) fail_msg("%s%s", p.out, p.err);
  return loss_in(out, "test");
}

static void an_evaluation_of_the_average_says_so(void **state) {
  char latest[192], path[192];
  static const char said[] = "of the average of the weights (ema=0.75)";
  RUN(&p, "eval", (snprintf(latest, sizeof latest, "%s/checkpoints/latest", whole), latest),
      "--data", "synthetic", "--jsonl", (snprintf(path, sizeof path, "%s/said.jsonl", dir), path));
  if (p.status) fail_msg("%s", p.err);
  assert_non_null(strstr(p.out, said));
  void *bytes;
  size_t n;
  assert_int_equal(mr_read_file(path, 1 << 24, &bytes, &n, NULL), MR_OK);
  ((char *)bytes)[n - 1] = 0;
  assert_non_null(strstr(bytes, "\"ema\":0.75"));
  free(bytes);
}

static void the_average_is_what_is_tested_and_evaluated(void **state) {
  char path[192];
  snprintf(path, sizeof path, "%s/metrics.jsonl", whole);
  double reported = loss_in(path, "test");
  assert_true(reported > 0);
  assert_true(evaluated("true") == reported);
  assert_true(evaluated("false") != reported);
}

static void a_checkpoint_without_an_average_begins_one(void **state) {
  char none[96];
  snprintf(none, sizeof none, "%s/none", dir);
  RUN(&p, "train", "--graph", file, "--run-dir", none, "train.steps=5", "train.ema=0");
  assert_int_equal(p.status, 0);
  mr_safetensors_t *f = checkpoint(none, 5);
  assert_null(mr_safetensors_find(f, "ema/head.kernel"));
  mr_safetensors_close(f);
  RUN(&p, "train", "--run-dir", none, "--resume", "train.steps=8", "train.ema=0.75");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  RUN(&p, "train", "--run-dir", none, "--resume", "train.steps=0", "train.ema=0.75");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  averages_are_debiased(none, 6);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_average_is_of_the_steps_that_were_taken),
      cmocka_unit_test(a_resumed_run_continues_with_the_same_average),
      cmocka_unit_test(an_evaluation_of_the_average_says_so),
      cmocka_unit_test(the_average_is_what_is_tested_and_evaluated),
      cmocka_unit_test(a_checkpoint_without_an_average_begins_one),
  };
  return cmocka_run_group_tests(tests, group_setup, small_run_forget);
}
