/* train-step on-nan=stop|skip: a run over arrays of which one record holds an inf. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "base/safetensors.h"
#include "base/xio.h"
#include "tests/apps/program.h"

/* Records in order, batches of 5: the bad one is in batch 5 of 8. */
enum { RECORDS = 40, WIDTH = 4, BATCH = 5, BAD_STEP = 5, BAD_RECORD = 21 };

static const char graph[] =
    "let run = unset\n"
    "let x = unset\n"
    "let y = unset\n"
    "npy name=data fields=x:$x,y:$y ! sequential epochs=1\n"
    "  ! batch 5 drop-remainder name=batches\n"
    "  ! train-step name=train model=mlp hidden=8 dtype=f32 lr=1e-2 checkpoint-every=1\n"
    "train.metrics ! jsonl path=$run/metrics.jsonl\n"
    "train.state ! checkpoint dir=$run/checkpoints keep=0\n";

static program_t p;
static char dir[64], file[96], bad_x[96], bad_y[96], good_x[96], good_y[96];

/* An .npy file of f4 (n) or (n,width). */
static void write_npy(const char *path, const float *v, int n, int width) {
  char head[129], shape[32];
  snprintf(shape, sizeof shape, width ? "%d, %d" : "%d,", n, width);
  memcpy(head, "\x93NUMPY\x01\x00\x76\x00", 10);
  int k =
      snprintf(head + 10, 118, "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }", shape);
  memset(head + 10 + k, ' ', (size_t)(117 - k));
  head[127] = '\n';
  FILE *f = fopen(path, "wb");
  size_t bytes = sizeof *v * (size_t)(n * (width ? width : 1));
  assert_true(f && fwrite(head, 1, 128, f) == 128);
  assert_true(fwrite(v, 1, bytes, f) == bytes && fclose(f) == 0);
}

/* Arrays with the bad record, and without its batch. */
static int group_setup(void **state) {
  static float x[RECORDS][WIDTH], y[RECORDS];
  strcpy(dir, "/tmp/mr-on-nan-XXXXXX");
  if (!mkdtemp(dir)) return -1;
  snprintf(file, sizeof file, "%s/small.mr", dir);
  snprintf(bad_x, sizeof bad_x, "x=%s/bad-x.npy", dir);
  snprintf(bad_y, sizeof bad_y, "y=%s/bad-y.npy", dir);
  snprintf(good_x, sizeof good_x, "x=%s/good-x.npy", dir);
  snprintf(good_y, sizeof good_y, "y=%s/good-y.npy", dir);
  for (int i = 0; i < RECORDS; i++) {
    for (int k = 0; k < WIDTH; k++) x[i][k] = sinf((float)(7 * i + k));
    y[i] = x[i][0] - 2 * x[i][1];
  }
  x[BAD_RECORD][2] = INFINITY;
  write_npy(bad_x + 2, x[0], RECORDS, WIDTH);
  write_npy(bad_y + 2, y, RECORDS, 0);
  int first = (BAD_STEP - 1) * BATCH, rest = RECORDS - first - BATCH;
  memmove(x[first], x[first + BATCH], sizeof x[0] * (size_t)rest);
  memmove(&y[first], &y[first + BATCH], sizeof y[0] * (size_t)rest);
  write_npy(good_x + 2, x[0], RECORDS - BATCH, WIDTH);
  write_npy(good_y + 2, y, RECORDS - BATCH, 0);
  return mr_write_file(file, graph, sizeof graph - 1, NULL) < 0 ? -1 : 0;
}

static int group_teardown(void **state) { return program_forget(dir); }

static const char *run_of(const char *name) {
  static char path[4][128];
  static int turn;
  char *to = path[turn++ % 4];
  snprintf(to, sizeof path[0], "%s/%s", dir, name);
  return to;
}

static char *read_text(const char *run, const char *name) {
  char path[256];
  void *bytes;
  size_t n;
  snprintf(path, sizeof path, "%s/%s", run, name);
  if (mr_read_file(path, 1 << 24, &bytes, &n, NULL) < 0) fail_msg("cannot read %s", path);
  ((char *)bytes)[n - 1] = 0;
  return bytes;
}

static void checkpoint_of(const char *run, int step, char path[256]) {
  snprintf(path, 256, "%s/checkpoints/step-%06d.safetensors", run, step);
}

static void expect_same_file(const char *x, const char *y, int step) {
  char path[256];
  void *a, *b;
  size_t n, m;
  checkpoint_of(x, step, path);
  if (mr_read_file(path, 1 << 24, &a, &n, NULL) < 0) fail_msg("cannot read %s", path);
  checkpoint_of(y, step, path);
  if (mr_read_file(path, 1 << 24, &b, &m, NULL) < 0) fail_msg("cannot read %s", path);
  assert_int_equal(n, m);
  assert_memory_equal(a, b, n);
  free(a), free(b);
}

/* Parameters and slots alone. */
static void expect_same_sets(const char *x, int x_step, const char *y, int y_step) {
  char path[256];
  mr_safetensors_t *a = NULL, *b = NULL;
  mr_diag_t diag = {0};
  int compared = 0;
  checkpoint_of(x, x_step, path);
  if (mr_safetensors_open(path, &a, &diag) < 0) fail_msg("%s", diag.text);
  checkpoint_of(y, y_step, path);
  if (mr_safetensors_open(path, &b, &diag) < 0) fail_msg("%s", diag.text);
  for (int i = 0; i < mr_safetensors_count(a); i++) {
    const mr_st_tensor_t *t = mr_safetensors_at(a, i), *u = mr_safetensors_find(b, t->name);
    size_t n = 1;
    if (t->dtype != MR_F32) continue; /* where the streams stand */
    assert_non_null(u);
    for (int d = 0; d < t->ndim; d++) n *= (size_t)t->dim[d];
    assert_memory_equal(t->data, u->data, n * sizeof(float));
    for (size_t k = 0; k < n; k++) assert_true(isfinite(((const float *)t->data)[k]));
    compared++;
  }
  assert_true(compared >= 18);
  mr_safetensors_close(a), mr_safetensors_close(b);
}

static void expect_in(const char *text, const char *part) {
  if (!strstr(text, part)) fail_msg("\"%s\" is not in: %s", part, text);
}

static int count_of(const char *text, const char *part) {
  int n = 0;
  for (const char *at = text; (at = strstr(at, part)); at++) n++;
  return n;
}

#define TRAIN(run, ...) \
  RUN(&p, "train", "--graph", file, "--run-dir", run, bad_x, bad_y, __VA_ARGS__)

static void stop_ends_the_run_with_the_state_before_the_step(void **state) {
  const char *stopped = run_of("stopped"), *four = run_of("four");
  TRAIN(stopped, "on-nan=stop");
  assert_int_equal(p.status, 1);
  expect_in(p.err, "train: step 5: the loss is nan");
  expect_in(p.err, "parameters are those after step 4");
  TRAIN(four, "train.steps=4");
  assert_int_equal(p.status, 0);
  expect_same_file(stopped, four, 4);
  char *told = read_text(stopped, "metrics.jsonl");
  assert_int_equal(count_of(told, "\"kind\":\"step\""), 4);
  expect_in(told, "\"note\":\"stopped: step 5: the loss is nan\"");
  free(told);
  char path[256];
  checkpoint_of(stopped, 5, path);
  assert_int_not_equal(access(path, F_OK), 0);
}

static void stop_is_what_a_run_does_by_itself(void **state) {
  TRAIN(run_of("default"), "train.ema=0.5");
  assert_int_equal(p.status, 1);
  expect_in(p.err, "train: step 5: the loss is nan");
}

static void skip_trains_as_if_the_batch_were_not_there(void **state) {
  static const char *const optimizer[] = {"optimizer=adamw", "optimizer=momentum"};
  for (int i = 0; i < 2; i++) {
    char name[2][16];
    snprintf(name[0], sizeof name[0], "skip-%d", i);
    snprintf(name[1], sizeof name[1], "without-%d", i);
    TRAIN(run_of(name[0]), "on-nan=skip", optimizer[i], "train.ema=0.5");
    if (p.status) fail_msg("%s%s", p.out, p.err);
    expect_in(p.err, "train: step 5: the loss is nan; its update is skipped");
    RUN(&p, "train", "--graph", file, "--run-dir", run_of(name[1]), good_x, good_y, optimizer[i],
        "train.ema=0.5");
    if (p.status) fail_msg("%s%s", p.out, p.err);
    expect_same_sets(run_of(name[0]), 8, run_of(name[1]), 7);
    expect_same_sets(run_of(name[0]), 4, run_of(name[0]), 5);
  }
  char *told = read_text(run_of("skip-0"), "metrics.jsonl");
  assert_int_equal(count_of(told, "\"skipped_steps\":0"), 4);
  assert_int_equal(count_of(told, "\"skipped_steps\":1"), 4);
  free(told);
}

static void a_resume_that_skips_ends_as_the_run_that_skipped(void **state) {
  const char *resumed = run_of("stopped");
  RUN(&p, "train", "--run-dir", resumed, "--resume");
  assert_int_equal(p.status, 1);
  expect_in(p.err, "train: step 5: the loss is nan");
  RUN(&p, "train", "--run-dir", resumed, "--resume", "on-nan=skip");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  TRAIN(run_of("skipped"), "on-nan=skip");
  expect_same_file(resumed, run_of("skipped"), 8);
  const char *again = run_of("again"); /* and across a resume after the step that was skipped */
  TRAIN(again, "on-nan=skip", "train.steps=6");
  RUN(&p, "train", "--run-dir", again, "--resume", "train.steps=0");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  expect_same_file(again, run_of("skipped"), 8);
}

static void more_in_a_row_than_allowed_end_the_run(void **state) {
  const char *run = run_of("row");
  TRAIN(run, "on-nan=skip", "lr=100", "optimizer=sgd", "max-skipped=2");
  assert_int_equal(p.status, 1);
  expect_in(p.err, "as the 2 steps before it were not finite");
  char *told = read_text(run, "metrics.jsonl");
  assert_int_equal(count_of(told, "\"loss\":null"), 2);
  free(told);
  TRAIN(run_of("row-0"), "on-nan=skip", "max-skipped=0");
  assert_int_equal(p.status, 1);
  expect_in(p.err, "train: step 5: the loss is nan");
}

static void a_dynamic_scale_does_not_hide_a_loss_that_is_not_finite(void **state) {
  TRAIN(run_of("dynamic"), "loss-scale=dynamic");
  assert_int_equal(p.status, 1);
  expect_in(p.err, "train: step 5: the loss is nan");
  TRAIN(run_of("dynamic-skip"), "loss-scale=dynamic", "on-nan=skip");
  assert_int_equal(p.status, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(stop_ends_the_run_with_the_state_before_the_step),
      cmocka_unit_test(stop_is_what_a_run_does_by_itself),
      cmocka_unit_test(skip_trains_as_if_the_batch_were_not_there),
      cmocka_unit_test(a_resume_that_skips_ends_as_the_run_that_skipped),
      cmocka_unit_test(more_in_a_row_than_allowed_end_the_run),
      cmocka_unit_test(a_dynamic_scale_does_not_hide_a_loss_that_is_not_finite),
  };
  return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
