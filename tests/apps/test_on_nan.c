/* train-step on-nan=stop|skip|trace and `millrace replay`: a run over arrays of which one record
   holds an inf, and one whose rate is too high. */
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
enum { RECORDS = 40, WIDTH = 4, BATCH = 5, BAD_STEP = 5, BAD_RECORD = 21, FAR_RECORD = 13 };

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
static char dir[64], file[96], bad_x[96], bad_y[96], good_x[96], good_y[96], far_y[96], one_y[96],
    steep_y[96];

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
  snprintf(far_y, sizeof far_y, "y=%s/far-y.npy", dir);
  snprintf(one_y, sizeof one_y, "y=%s/one-y.npy", dir);
  snprintf(steep_y, sizeof steep_y, "y=%s/steep-y.npy", dir);
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
  for (int i = 0; i < RECORDS; i++) y[i] *= 1e4f;
  write_npy(far_y + 2, y, RECORDS - BATCH, 0);
  for (int i = 0; i < RECORDS; i++) y[i] *= 1e13f;
  write_npy(steep_y + 2, y, RECORDS - BATCH, 0);
  for (int i = 0; i < RECORDS; i++) y[i] = i == FAR_RECORD ? 3e30f : 1;
  write_npy(one_y + 2, y, RECORDS - BATCH, 0);
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
  char *reported = read_text(stopped, "metrics.jsonl");
  assert_int_equal(count_of(reported, "\"kind\":\"step\""), 4);
  expect_in(reported, "\"note\":\"stopped: step 5: the loss is nan\"");
  free(reported);
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
  char *reported = read_text(run_of("skip-0"), "metrics.jsonl");
  assert_int_equal(count_of(reported, "\"skipped_steps\":0"), 4);
  assert_int_equal(count_of(reported, "\"skipped_steps\":1"), 4);
  free(reported);
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
  char *reported = read_text(run, "metrics.jsonl");
  assert_int_equal(count_of(reported, "\"loss\":null"), 2);
  free(reported);
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

/* Loss and gradients are finite, and a parameter that f16 alone keeps would not be. */
#define TRAIN_FAR(run, ...)                                                                 \
  RUN(&p, "train", "--graph", file, "--run-dir", run, good_x, far_y, "train.optimizer=sgd", \
      "train.lr=100", "train.param-dtype=f16", __VA_ARGS__)

static void a_parameter_beyond_f16_is_no_finite_step(void **state) {
  const char *run = run_of("far");
  TRAIN_FAR(run, "master=none");
  assert_int_equal(p.status, 1);
  expect_in(p.err, "step 1: an updated parameter exceeds 65504, the largest f16");
  expect_in(p.err, "parameters are those after step 0");
  TRAIN_FAR(run_of("far-dynamic"), "master=none", "loss-scale=dynamic", "rounding=stochastic");
  assert_int_equal(p.status, 1);
  expect_in(p.err, "an updated parameter exceeds 65504");
  run = run_of("far-skip");
  TRAIN_FAR(run, "master=none", "on-nan=skip");
  assert_int_equal(p.status, 0);
  char *reported = read_text(run, "metrics.jsonl");
  assert_non_null(strstr(reported, "\"skipped_steps\":7"));
  assert_int_equal(count_of(reported, "\"param_norm\":null"), 0);
  free(reported);
  run = run_of("far-trace");
  TRAIN_FAR(run, "master=none", "on-nan=trace");
  assert_int_equal(p.status, 1);
  expect_in(p.err, "update, sgd: the update makes a number of magnitude ");
  expect_in(p.err, " of parameter head.kernel; records 0, 1, 2, 3, 4; millrace replay ");
  char path[256];
  snprintf(path, sizeof path, "%s/nan-000001.safetensors", run);
  RUN(&p, "replay", path);
  if (p.status) fail_msg("%s%s", p.out, p.err);
  expect_in(p.out, "of parameter head.kernel");
}

static void with_a_master_copy_the_same_step_is_finite(void **state) {
  TRAIN_FAR(run_of("far-master"), "train.steps=1");
  assert_int_equal(p.status, 0);
}

/* ---- trace and replay ---- */

static void *bytes_of(const char *run, const char *name, size_t *n) {
  char path[256];
  void *bytes;
  snprintf(path, sizeof path, "%s/%s", run, name);
  if (mr_read_file(path, 1 << 24, &bytes, n, NULL) < 0) fail_msg("cannot read %s", path);
  return bytes;
}

static void trace_names_the_record_that_holds_an_infinity(void **state) {
  const char *run = run_of("trace");
  TRAIN(run, "on-nan=trace");
  assert_int_equal(p.status, 1);
  expect_in(p.err, "train: step 5: the loss is nan");
  expect_in(p.err, "field x of the batch holds inf at [1,2] (slot 1, record 21)");
  expect_in(p.err, "records 20, 21, 22, 23, 24;");
  expect_in(p.err, "/trace/nan-000005.safetensors");
  expect_same_file(run, run_of("stopped"), 4);
}

/* The file is alone in a folder of its own, and the data is gone. */
static void replay_repeats_the_step_anywhere_to_the_bit(void **state) {
  char from[256], command[700];
  snprintf(from, sizeof from, "%s/nan-000005.safetensors", run_of("trace"));
  snprintf(command, sizeof command, "mkdir %s && cp %s %s/step", run_of("alone"), from,
           run_of("alone"));
  assert_int_equal(system(command), 0);
  snprintf(from, sizeof from, "%s/step", run_of("alone"));
  RUN(&p, "replay", from);
  if (p.status) fail_msg("%s%s", p.out, p.err);
  expect_in(p.out, "step 5 of train: model mlp, batch 5");
  expect_in(p.out, "records 20 21 22 23 24\n");
  expect_in(p.out, "the bits are the same");
  expect_in(p.out, "field x of the batch holds inf at [1,2] (slot 1, record 21)");
  assert_string_equal(p.err, "");
  RUN(&p, "replay", from, "--threads", "1");
  assert_int_equal(p.status, 0);
}

static void a_step_of_a_device_is_repeated_there(void **state) {
  char from[256];
  const char *run = run_of("device");
  TRAIN(run, "on-nan=trace", "train.device=opencl");
  if (strstr(p.err, "device opencl: ")) skip(); /* no driver, or a build without OpenCL */
  assert_int_equal(p.status, 1);
  snprintf(from, sizeof from, "%s/nan-000005.safetensors", run);
  RUN(&p, "replay", from, "--device", "opencl");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  expect_in(p.out, "threads, device opencl\n");
  expect_in(p.out, "the bits are the same");
  assert_string_equal(p.err, "");
  RUN(&p, "replay", from);
  expect_in(p.out, "field x of the batch holds inf at [1,2] (slot 1, record 21)");
  expect_in(p.err, "the run computed on device opencl, this is cpu: bits may differ");
  snprintf(from, sizeof from, "%s/nan-000005.safetensors", run_of("trace"));
  RUN(&p, "replay", from, "--device", "opencl");
  expect_in(p.err, "the run computed on device cpu, this is opencl: bits may differ");
}

/* amp-rule at its longest: a file holds every setting that the step follows from. */
static void a_long_rule_travels_in_the_file(void **state) {
  char rules[4096];
  const char *run = run_of("rules");
  snprintf(rules, sizeof rules, "amp-rule=head=f32");
  for (int i = 0; i < 40; i++) {
    size_t n = strlen(rules);
    snprintf(rules + n, sizeof rules - n, "%*s,%*slinear = class", 40, "", 40, "");
  }
  assert_true(strlen(rules) > 3500);
  TRAIN(run, "on-nan=trace", "train.dtype=bf16", rules);
  if (p.status != 1) fail_msg("%s", p.err);
  const char *file_of = strstr(p.err, "millrace replay ");
  if (!file_of) fail_msg("%s", p.err);
  char path[256];
  assert_int_equal(sscanf(file_of, "millrace replay %255s", path), 1);
  RUN(&p, "replay", path);
  if (p.status) fail_msg("%s%s", p.out, p.err);
  expect_in(p.out, "the bits are the same");
}

/* It would train, and be lost at the step that needs it. */
static void a_rule_that_no_file_has_room_for_is_refused_at_once(void **state) {
  char rules[6400];
  snprintf(rules, sizeof rules, "amp-rule=head=f32,%*slinear=class", 6000, "");
  TRAIN(run_of("rules-6000"), "on-nan=trace", "train.dtype=bf16", rules);
  assert_int_equal(p.status, 2);
  expect_in(p.err, "train: setting amp-rule: 6021 bytes, want at most 5376");
}

/* The same metadata and tensors, but for one text, or without one tensor. */
static void rewrite(const char *from, const char *to, const char *key, const char *value,
                    const char *without) {
  static const char *const word[] = {"replay",    "settings", "fields", "stage",     "step",
                                     "seed",      "lr",       "loss",   "grad_norm", "scale",
                                     "isa",       "threads",  "keys",   "precision", "skip",
                                     "made_with", "ema_after"};
  enum { WORDS = sizeof word / sizeof *word };
  mr_safetensors_t *f = NULL;
  mr_diag_t diag = {0};
  mr_st_meta_t meta[WORDS];
  mr_st_tensor_t tensor[64];
  char name[WORDS][40];
  int n = 0, metas = 0;
  if (mr_safetensors_open(from, &f, &diag) < 0) fail_msg("%s", diag.text);
  for (int i = 0; i < WORDS; i++) {
    snprintf(name[i], sizeof name[i], "millrace.%s", word[i]);
    const char *kept = strcmp(word[i], key) ? mr_safetensors_meta(f, name[i]) : value;
    assert_true(kept || i >= WORDS - 1); /* the last one is not in every file */
    if (kept) meta[metas++] = (mr_st_meta_t){name[i], kept};
  }
  assert_true(mr_safetensors_count(f) < 64);
  for (int i = 0; i < mr_safetensors_count(f); i++)
    if (strcmp(mr_safetensors_at(f, i)->name, without)) tensor[n++] = *mr_safetensors_at(f, i);
  if (mr_safetensors_write(to, tensor, n, meta, metas, &diag) < 0) fail_msg("%s", diag.text);
  mr_safetensors_close(f);
}

/* The scales of fp8 before the step travel in the file; without them the step would be another. */
static void a_step_in_f8_is_repeated_with_its_scales(void **state) {
  static const char *const lost[] = {"fp8/scale", "fp8/amax"};
  const char *run = run_of("fp8");
  char from[256], to[256];
  TRAIN(run, "on-nan=trace", "train.dtype=bf16", "train.fp8=hybrid", "train.fp8-history=3");
  assert_int_equal(p.status, 1);
  expect_in(p.err, "field x of the batch holds inf at [1,2] (slot 1, record 21)");
  snprintf(from, sizeof from, "%s/nan-000005.safetensors", run);
  snprintf(to, sizeof to, "%s/bad", dir);
  RUN(&p, "replay", from);
  if (p.status) fail_msg("%s%s", p.out, p.err);
  expect_in(p.out, "the bits are the same");
  for (int i = 0; i < 2; i++) {
    rewrite(from, to, "", "", lost[i]);
    RUN(&p, "replay", to);
    assert_int_equal(p.status, 1);
    expect_in(p.err, "tensors fp8/scale and fp8/amax are missing or not f32 of (n,3) and (3,n,3)");
  }
}

static void a_rate_that_is_too_high_is_traced_to_the_op_that_overflows(void **state) {
  const char *run = run_of("high");
  TRAIN(run, "on-nan=trace", "lr=100", "optimizer=sgd", "layers=1");
  assert_int_equal(p.status, 1);
  expect_in(p.err, "parameters are those after step ");
  const char *file_of = strstr(p.err, "millrace replay ");
  assert_non_null(file_of);
  char path[256];
  assert_int_equal(sscanf(file_of, "millrace replay %255s", path), 1);
  RUN(&p, "replay", path, "--trace");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  expect_in(p.out, "the bits are the same");
  expect_in(p.out, "<- not finite");
  assert_int_equal(count_of(p.out, "<- not finite"), 1); /* the list ends there */
  expect_in(p.out, "first value that is not finite: ");
  RUN(&p, "replay", path);
  assert_int_equal(p.status, 0);
}

static void another_instruction_set_is_reported(void **state) {
  char from[256], isa[64];
  const char *set;
  snprintf(from, sizeof from, "%s/nan-000005.safetensors", run_of("trace"));
  mr_safetensors_t *f = NULL;
  assert_int_equal(mr_safetensors_open(from, &f, NULL), MR_OK);
  snprintf(isa, sizeof isa, "%s", mr_safetensors_meta(f, "millrace.isa"));
  mr_safetensors_close(f);
  set = strcmp(isa, "plain") ? "plain" : NULL;
  if (!set) skip(); /* this machine has one alone */
  setenv("MILLRACE_ISA", set, 1);
  RUN(&p, "replay", from);
  unsetenv("MILLRACE_ISA");
  expect_in(p.err, "the run used the instruction set ");
  expect_in(p.err, "this is plain: bits may differ");
  expect_in(p.out, "field x of the batch holds inf at [1,2]");
  if (p.status) expect_in(p.err, "does not repeat to the bit, on another machine");
}

/* The files of a run's TensorBoard as one text, without zeros; the caller frees it. */
static char *events_of(const char *run, size_t *n) {
  char command[400];
  snprintf(command, sizeof command, "cat %s/events/* > %s/all-events", run, run);
  assert_int_equal(system(command), 0);
  char *bytes = bytes_of(run, "all-events", n);
  for (size_t i = 0; i < *n; i++) bytes[i] = bytes[i] ? bytes[i] : 1;
  bytes[*n - 1] = 0;
  return bytes;
}

/* Every step is watched, the bad one too: histograms are of the four steps that were applied, and
   neither the file nor the checkpoint differ from those of a run that watches nothing. */
static void histograms_do_not_disturb_the_trace(void **state) {
  const char *run = run_of("watched");
  char watched[96], sink[] = "train.metrics ! tensorboard dir=$run/events\n";
  size_t n, m;
  RUN(&p, "inspect", "tensorboard");
  if (p.status) skip(); /* a build without it */
  snprintf(watched, sizeof watched, "%s/watched.mr", dir);
  char text[sizeof graph + sizeof sink];
  snprintf(text, sizeof text, "%s%s", graph, sink);
  assert_int_equal(mr_write_file(watched, text, strlen(text), NULL), MR_OK);
  RUN(&p, "train", "--graph", watched, "--run-dir", run, bad_x, bad_y, "on-nan=trace",
      "train.watch-every=1");
  assert_int_equal(p.status, 1);
  expect_in(p.err, "field x of the batch holds inf at [1,2] (slot 1, record 21)");
  void *a = bytes_of(run, "nan-000005.safetensors", &n);
  void *b = bytes_of(run_of("trace"), "nan-000005.safetensors", &m);
  assert_int_equal(n, m);
  assert_memory_equal(a, b, n);
  free(a), free(b);
  expect_same_file(run, run_of("stopped"), 4);
  char *events = events_of(run, &n);
  assert_int_equal(count_of(events, "weights/head.kernel"), BAD_STEP - 1);
  assert_int_equal(count_of(events, "gradients/head.kernel"), BAD_STEP - 1);
  free(events);
}

/* A kill between two steps and a resume change no byte of the file. */
static void a_resumed_run_writes_the_same_file(void **state) {
  const char *run = run_of("resumed");
  size_t n, m;
  TRAIN(run, "on-nan=trace", "train.steps=3");
  assert_int_equal(p.status, 0);
  RUN(&p, "train", "--run-dir", run, "--resume", "train.steps=0");
  assert_int_equal(p.status, 1);
  void *a = bytes_of(run, "nan-000005.safetensors", &n);
  void *b = bytes_of(run_of("trace"), "nan-000005.safetensors", &m);
  assert_int_equal(n, m);
  assert_memory_equal(a, b, n);
  free(a), free(b);
}

/* An average that a resume began: of what step the file is, and how many it was debiased over. */
static void an_average_that_began_later_travels_in_the_file(void **state) {
  const char *run = run_of("average");
  char from[256], to[256];
  TRAIN(run, "on-nan=trace", "train.steps=3");
  assert_int_equal(p.status, 0);
  RUN(&p, "train", "--run-dir", run, "--resume", "train.steps=0", "train.ema=0.5");
  assert_int_equal(p.status, 1);
  snprintf(from, sizeof from, "%s/nan-000005.safetensors", run);
  RUN(&p, "replay", from);
  if (p.status) fail_msg("%s%s", p.out, p.err);
  expect_in(p.out, "average of the weights: decay 0.5, begun after 3 applied steps\n");
  expect_in(p.out, "the bits are the same");
  snprintf(to, sizeof to, "%s/bad", dir);
  rewrite(from, to, "ema_after", "6", ""); /* after the step itself */
  RUN(&p, "replay", to);
  assert_int_equal(p.status, 1);
  expect_in(p.err, "metadata millrace.ema_after is \"6\", want a whole number up to 5");
  rewrite(from, to, "ema_after", NULL, ""); /* as files of older programs are */
  RUN(&p, "replay", to);
  if (p.status) fail_msg("%s%s", p.out, p.err);
  expect_in(p.out, "decay 0.5, begun after 0 applied steps\n");
  TRAIN(run_of("average-0"), "on-nan=trace", "train.ema=0.5");
  snprintf(from, sizeof from, "%s/nan-000005.safetensors", run_of("average-0"));
  RUN(&p, "replay", from);
  expect_in(p.out, "decay 0.5, begun after 0 applied steps\n");
  snprintf(from, sizeof from, "%s/nan-000005.safetensors", run_of("trace"));
  RUN(&p, "replay", from);
  assert_null(strstr(p.out, "average of the weights"));
}

static void settings_that_change_nothing_are_said(void **state) {
  static const char *const setting[] = {
      "loss-scale-start=8", "loss-scale-patience=9", "max-skipped=7",        "replay-dir=/tmp",
      "fp8-history=3",      "fp8-margin=1",          "fp8-amax=most-recent", "focal-gamma=3"};
  char text[96], full[64];
  for (size_t i = 0; i < sizeof setting / sizeof *setting; i++) {
    snprintf(full, sizeof full, "train.%s", setting[i]);
    RUN(&p, "train", "--graph", file, "--run-dir", run_of("unused"), good_x, good_y, full,
        "train.steps=1");
    assert_int_equal(p.status, 0);
    snprintf(text, sizeof text, "train: setting %.*s changes nothing without ",
             (int)strcspn(setting[i], "="), setting[i]);
    expect_in(p.err, text);
    char command[160];
    snprintf(command, sizeof command, "rm -r %s", run_of("unused"));
    assert_int_equal(system(command), 0);
  }
  RUN(&p, "train", "--graph", file, "--run-dir", run_of("used"), good_x, good_y, "train.steps=1",
      "on-nan=skip", "max-skipped=7", "loss-scale=dynamic", "loss-scale-start=8");
  assert_int_equal(p.status, 0);
  assert_null(strstr(p.err, "changes nothing"));
}

/* The square of one record's error overflows; of a batch in parts it is in one of them. */
static void an_element_of_a_batch_in_parts_is_traced_to_its_record(void **state) {
  RUN(&p, "train", "--graph", file, "--run-dir", run_of("parts"), good_x, one_y, "on-nan=trace",
      "train.accumulate=5");
  assert_int_equal(p.status, 1);
  expect_in(p.err, "forward: ");
  expect_in(p.err, " gives inf at [0,0] (slot 3, record 13, part 4 of 5)");
  RUN(&p, "train", "--graph", file, "--run-dir", run_of("no-parts"), good_x, one_y, "on-nan=trace");
  expect_in(p.err, " gives inf at [3,0] (slot 3, record 13);");
}

static void a_norm_that_overflows_alone_names_a_parameter(void **state) {
  RUN(&p, "train", "--graph", file, "--run-dir", run_of("steep"), good_x, steep_y, "on-nan=trace",
      "loss-scale=1e9");
  assert_int_equal(p.status, 1);
  expect_in(p.err, "the gradients' norm is inf");
  expect_in(p.err, "update, adamw: ");
  expect_in(p.err, "; the gradient of parameter hidden.0.kernel goes up to ");
}

/* A step of bf16 products under MILLRACE_MATMUL_PRECISION, repeated without it. */
static void the_runs_precision_and_keys_apply(void **state) {
  static const char *const setting[] = {"train.matmul-precision=none",
                                        "train.matmul-precision=highest"};
  char from[256];
  for (int i = 0; i < 2; i++) {
    const char *run = run_of(i ? "precision-own" : "precision");
    setenv("MILLRACE_MATMUL_PRECISION", "default", 1);
    setenv("MILLRACE_THREEFRY_PARTITIONABLE", "0", 1);
    RUN(&p, "train", "--graph", file, "--run-dir", run, good_x, far_y, "optimizer=sgd", "lr=100",
        "on-nan=trace", setting[i]);
    unsetenv("MILLRACE_MATMUL_PRECISION"), unsetenv("MILLRACE_THREEFRY_PARTITIONABLE");
    assert_int_equal(p.status, 1);
    const char *at = strstr(p.err, "/nan-");
    assert_non_null(at);
    snprintf(from, sizeof from, "%s/nan-%.6s.safetensors", run, at + 5);
    RUN(&p, "replay", from);
    if (p.status) fail_msg("%s%s", p.out, p.err);
    expect_in(p.out, "the bits are the same");
    assert_string_equal(p.err, "");
    setenv("MILLRACE_MATMUL_PRECISION", "high", 1);
    RUN(&p, "replay", from);
    unsetenv("MILLRACE_MATMUL_PRECISION");
    expect_in(p.out, "the bits are the same");
  }
}

/* A folder that is missing is made, with a blank in its name; a second run writes beside the first.
 */
static void runs_that_share_a_folder_keep_each_others_files(void **state) {
  char folder[128], path[256], setting[160];
  void *first, *second;
  size_t n, m;
  snprintf(folder, sizeof folder, "%s/made here/it's", dir);
  snprintf(setting, sizeof setting, "train.replay-dir=%s", folder);
  TRAIN(run_of("share-1"), "on-nan=trace", setting);
  assert_int_equal(p.status, 1);
  snprintf(path, sizeof path, "millrace replay '%s/made here/it'\\''s/nan-000005.safetensors'",
           dir);
  expect_in(p.err, path);
  first = bytes_of(folder, "nan-000005.safetensors", &n);
  TRAIN(run_of("share-2"), "on-nan=trace", setting, "train.seed=3");
  assert_int_equal(p.status, 1);
  expect_in(p.err, "s/nan-000005-2.safetensors'");
  second = bytes_of(folder, "nan-000005.safetensors", &m);
  assert_true(n == m && !memcmp(first, second, n));
  free(second);
  second = bytes_of(folder, "nan-000005-2.safetensors", &m);
  assert_true(n != m || memcmp(first, second, n));
  free(first), free(second);
  snprintf(path, sizeof path, "%s/nan-000005-2.safetensors", folder);
  RUN(&p, "replay", path);
  if (p.status) fail_msg("%s%s", p.out, p.err);
}

static void a_folder_that_cannot_be_written_is_refused_before_the_first_step(void **state) {
  char setting[160];
  snprintf(setting, sizeof setting, "train.replay-dir=%s/nan", file);
  TRAIN(run_of("no-folder"), "on-nan=trace", setting);
  assert_int_equal(p.status, 1);
  expect_in(p.err, "train: setting replay-dir: ");
  assert_null(strstr(p.err, "step 5"));
}

static void a_command_that_does_not_fit_has_a_line_of_its_own(void **state) {
  char setting[900];
  int n = snprintf(setting, sizeof setting, "train.replay-dir=%s", dir);
  for (int i = 0; i < 3; i++) n += snprintf(setting + n, sizeof setting - (size_t)n, "/%0200d", i);
  TRAIN(run_of("long"), "on-nan=trace", setting);
  assert_int_equal(p.status, 1);
  char whole[1000];
  snprintf(whole, sizeof whole, "millrace replay %s/nan-000005.safetensors",
           strchr(setting, '=') + 1);
  expect_in(p.err, whole);
}

static void files_that_are_not_whole_or_do_not_fit_are_refused(void **state) {
  static const struct {
    const char *key, *value, *without, *says;
  } bad[] = {
      {"replay", "2", "", "a replay file of version 2, want 1"},
      {"step", "minus", "", "metadata millrace.step is \"minus\", want a whole number"},
      {"threads", "100000", "", "want a whole number up to 1024"},
      {"loss", "7fc000000", "", "metadata millrace.loss"},
      {"scale", "1 2", "", "want a scale and four counts"},
      {"settings", "model=mlpp\n", "", "a step of model \"mlpp\", which is unknown here"},
      {"settings", "model=mlp\nresume=/etc/passwd\n", "", "which is no setting of a step"},
      {"settings", "model=mlp\nlr=zebra\n", "", "lr"},
      {"settings", "model=mlp\nhidden=262144\nlayers=64\n", "", "not of the shape"},
      {"settings", "model=mlp\naccumulate=2\nhidden=8\n", "", "does not divide a batch of 5"},
      {"fields", "x 0 \ny -1 \n", "", "tensor field/y"},
      {"fields", "x 0\n", "", "these batches have x"},
      {"", "", "counts", "tensor counts is missing"},
      {"", "", "records", "tensor records is missing"},
      {"", "", "params/head.kernel", "tensor params/head.kernel is missing"},
      {"", "", "slot.1/head.bias", "tensor slot.1/head.bias is missing"}};
  char from[256], to[256];
  size_t n;
  snprintf(from, sizeof from, "%s/nan-000005.safetensors", run_of("trace"));
  snprintf(to, sizeof to, "%s/bad", dir);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    rewrite(from, to, bad[i].key, bad[i].value, bad[i].without);
    RUN(&p, "replay", to);
    if (!p.status) fail_msg("case %zu is accepted: %s", i, p.out);
    expect_in(p.err, bad[i].says);
  }
  char *bytes = bytes_of(run_of("trace"), "nan-000005.safetensors", &n);
  bytes[n - 3] ^= 1; /* of a tensor */
  assert_int_equal(mr_write_file(to, bytes, n, NULL), MR_OK);
  RUN(&p, "replay", to);
  assert_int_equal(p.status, 1);
  assert_int_equal(mr_write_file(to, bytes, n / 2, NULL), MR_OK);
  RUN(&p, "replay", to);
  assert_int_equal(p.status, 1);
  free(bytes);
  checkpoint_of(run_of("trace"), 4, from);
  RUN(&p, "replay", from);
  expect_in(p.err, "not a replay file");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(stop_ends_the_run_with_the_state_before_the_step),
      cmocka_unit_test(stop_is_what_a_run_does_by_itself),
      cmocka_unit_test(skip_trains_as_if_the_batch_were_not_there),
      cmocka_unit_test(a_resume_that_skips_ends_as_the_run_that_skipped),
      cmocka_unit_test(more_in_a_row_than_allowed_end_the_run),
      cmocka_unit_test(a_dynamic_scale_does_not_hide_a_loss_that_is_not_finite),
      cmocka_unit_test(a_parameter_beyond_f16_is_no_finite_step),
      cmocka_unit_test(with_a_master_copy_the_same_step_is_finite),
      cmocka_unit_test(trace_names_the_record_that_holds_an_infinity),
      cmocka_unit_test(replay_repeats_the_step_anywhere_to_the_bit),
      cmocka_unit_test(a_step_of_a_device_is_repeated_there),
      cmocka_unit_test(another_instruction_set_is_reported),
      cmocka_unit_test(a_long_rule_travels_in_the_file),
      cmocka_unit_test(a_rule_that_no_file_has_room_for_is_refused_at_once),
      cmocka_unit_test(a_step_in_f8_is_repeated_with_its_scales),
      cmocka_unit_test(a_rate_that_is_too_high_is_traced_to_the_op_that_overflows),
      cmocka_unit_test(histograms_do_not_disturb_the_trace),
      cmocka_unit_test(a_resumed_run_writes_the_same_file),
      cmocka_unit_test(an_average_that_began_later_travels_in_the_file),
      cmocka_unit_test(settings_that_change_nothing_are_said),
      cmocka_unit_test(an_element_of_a_batch_in_parts_is_traced_to_its_record),
      cmocka_unit_test(a_norm_that_overflows_alone_names_a_parameter),
      cmocka_unit_test(the_runs_precision_and_keys_apply),
      cmocka_unit_test(runs_that_share_a_folder_keep_each_others_files),
      cmocka_unit_test(a_folder_that_cannot_be_written_is_refused_before_the_first_step),
      cmocka_unit_test(a_command_that_does_not_fit_has_a_line_of_its_own),
      cmocka_unit_test(files_that_are_not_whole_or_do_not_fit_are_refused),
  };
  return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
