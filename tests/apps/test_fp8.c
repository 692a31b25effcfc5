/* train-step fp8=: a run in f8 learns as one in bf16, its state goes through checkpoints and
   resumes to the bit, and what does not fit that state is refused or said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "base/safetensors.h"
#include "base/xio.h"
#include "tests/apps/small_run.h"
#include "tests/random.h"

enum { STEPS = 24, HISTORY = 4, PRODUCTS = 6 };

static const char graph[] =
    "let run = unset\n"
    "synthetic n=48 split=train ! shuffle seed=1 epochs=4 ! normalize preset=cifar10\n"
    "  ! batch 8 drop-remainder\n"
    "  ! vit-step name=train layers=1 embed=16 mlp=32 heads=2 lr=1e-2 checkpoint-every=1\n"
    "    fp8=hybrid fp8-history=4\n"
    "train.metrics ! jsonl path=$run/metrics.jsonl\n"
    "train.state ! checkpoint dir=$run/checkpoints keep=0\n";

static int group_setup(void **state) { return small_run("fp8", graph); }

static void checkpoint_of(const char *run, int step, char path[192]) {
  snprintf(path, 192, "%s/checkpoints/step-%06d.safetensors", run, step);
}

static void *bytes_of(const char *run, const char *name, size_t *n) {
  char path[192];
  void *bytes;
  snprintf(path, sizeof path, "%s/%s", run, name);
  assert_int_equal(mr_read_file(path, 1 << 24, &bytes, n, NULL), MR_OK);
  return bytes;
}

static void expect_in(const char *text, const char *part) {
  if (!strstr(text, part)) fail_msg("\"%s\" is not in: %s", part, text);
}

#define TRAIN(...) RUN(&p, "train", "--graph", file, "--run-dir", other, __VA_ARGS__)

static void remove_other(void) { assert_int_equal(program_forget(other), 0); }

/* Where a run is stopped follows from a printed seed. */
static void a_resumed_run_ends_with_the_same_bytes(void **state) {
  for (round_t r = round_first(2); round_next(&r);) {
    char steps[32];
    size_t n, m;
    snprintf(steps, sizeof steps, "train.steps=%d", 1 + draw(&r, STEPS - 1));
    remove_other();
    TRAIN(steps);
    assert_int_equal(p.status, 0);
    RUN(&p, "train", "--run-dir", other, "--resume", "train.steps=0");
    if (p.status) fail_msg("%s%s", p.out, p.err);
    void *a = bytes_of(whole, "checkpoints/step-000024.safetensors", &n);
    void *b = bytes_of(other, "checkpoints/step-000024.safetensors", &m);
    round_check(&r, n == m && !memcmp(a, b, n), "resumed after %s", steps);
    free(a), free(b);
  }
}

/* The mean of the last losses. */
static double end_of(const char *run) {
  size_t n;
  char *text = bytes_of(run, "metrics.jsonl", &n), *rest = NULL;
  double sum = 0;
  int step = 0;
  text[n - 1] = 0;
  for (char *l = strtok_r(text, "\n", &rest); l; l = strtok_r(NULL, "\n", &rest)) {
    const char *at = strstr(l, "\"kind\":\"step\"") ? strstr(l, "\"loss\":") : NULL;
    if (at && ++step > STEPS / 2) sum += strtod(at + 7, NULL);
  }
  free(text);
  assert_int_equal(step, STEPS);
  return sum / (STEPS - STEPS / 2);
}

static void losses_are_near_those_of_bf16(void **state) {
  double f8 = end_of(whole);
  static const char *const format[] = {"train.fp8=none", "train.fp8=e4m3"};
  for (int i = 0; i < 2; i++) {
    remove_other();
    TRAIN(format[i]);
    assert_int_equal(p.status, 0);
    double b = end_of(other);
    if (fabs(f8 - b) > 0.05 * b || f8 == b) fail_msg("%s: %g, hybrid has %g", format[i], b, f8);
  }
}

/* A checkpoint with one tensor of fp8 changed by `spoil`, or left out. */
static void rewrite(const char *to, const char *without, void (*spoil)(mr_st_tensor_t *scale)) {
  static const char *const word[] = {"version",  "step", "images",      "epoch",
                                     "position", "seed", "unvalidated", "ledger",
                                     "model",    "data", "computes",    "optimizer"};
  enum { WORDS = sizeof word / sizeof *word };
  static float held[PRODUCTS * 3 + 3];
  mr_safetensors_t *f = NULL;
  mr_st_meta_t meta[WORDS];
  mr_st_tensor_t tensor[160];
  mr_diag_t diag = {0};
  char name[WORDS][40], from[192];
  int n = 0;
  checkpoint_of(whole, 3, from);
  if (mr_safetensors_open(from, &f, &diag) < 0) fail_msg("%s", diag.text);
  for (int i = 0; i < WORDS; i++) {
    snprintf(name[i], sizeof name[i], "millrace.%s", word[i]);
    meta[i] = (mr_st_meta_t){name[i], mr_safetensors_meta(f, name[i])};
    assert_non_null(meta[i].value);
  }
  assert_true(mr_safetensors_count(f) <= 160);
  for (int i = 0; i < mr_safetensors_count(f); i++) {
    tensor[n] = *mr_safetensors_at(f, i);
    if (without && !strcmp(tensor[n].name, without)) continue;
    if (spoil && !strcmp(tensor[n].name, "fp8/scale")) {
      memcpy(held, tensor[n].data, sizeof(float) * PRODUCTS * 3);
      tensor[n].data = held;
      spoil(&tensor[n]);
    }
    n++;
  }
  if (mr_safetensors_write(to, tensor, n, meta, WORDS, &diag) < 0) fail_msg("%s", diag.text);
  mr_safetensors_close(f);
}

static void spoil_nan(mr_st_tensor_t *t) { ((float *)(uintptr_t)t->data)[7] = NAN; }
static void spoil_zero(mr_st_tensor_t *t) { ((float *)(uintptr_t)t->data)[17] = 0; }
static void spoil_shape(mr_st_tensor_t *t) { t->dim[0] = PRODUCTS - 1; }
static void spoil_nothing(mr_st_tensor_t *t) {}

static void a_state_that_no_run_writes_is_refused(void **state) {
  static const struct {
    const char *without;
    void (*spoil)(mr_st_tensor_t *scale);
    const char *says;
  } bad[] = {{"fp8/scale", NULL, "tensors fp8/scale and fp8/amax are missing or not f32 of (n,3)"},
             {"fp8/amax", NULL, "tensors fp8/scale and fp8/amax are missing or not f32 of (n,3)"},
             {NULL, spoil_shape, "tensors fp8/scale and fp8/amax are missing or not f32 of (n,3)"},
             {NULL, spoil_nan, "holds a number that is not finite"},
             {NULL, spoil_zero, "or a scale of 0"},
             {NULL, spoil_nothing, NULL}};
  char to[128], setting[160];
  snprintf(to, sizeof to, "%s/bad", dir), snprintf(setting, sizeof setting, "train.resume=%s", to);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    rewrite(to, bad[i].without, bad[i].spoil);
    remove_other();
    TRAIN(setting, "train.steps=4");
    if (!p.status != !bad[i].says) fail_msg("case %zu: status %d: %s", i, p.status, p.err);
    if (bad[i].says) expect_in(p.err, bad[i].says);
  }
}

static void another_precision_at_a_resume_is_refused_or_said(void **state) {
  static const struct {
    const char *setting, *more;
    bool refused;
    const char *says;
  } change[] = {
      {"train.fp8=e4m3", "train.lr=1e-2", true, "was made with fp8=hybrid fp8-history=4"},
      {"train.fp8-history=5", "train.lr=1e-2", true,
       "its scales fit no others; want those settings"},
      {"train.fp8-margin=1", "train.lr=1e-2", true, "settings fp8=hybrid fp8-history=4"},
      {"train.fp8-amax=most-recent", "train.lr=1e-2", true, "fp8-amax=most-recent: the checkpoint"},
      {"train.amp-rule=head=f32", "train.lr=1e-2", true, "these settings make 5 products"},
      {"train.fp8=none", "train.lr=1e-2", false, "fp8-amax=max; its scales are dropped"},
      {"train.fp8=none", "train.dtype=f32", false, "was made with dtype=bf16; its next steps"}};
  char from[192], setting[224];
  checkpoint_of(whole, 3, from);
  snprintf(setting, sizeof setting, "train.resume=%s", from);
  for (size_t i = 0; i < sizeof change / sizeof *change; i++) {
    remove_other();
    TRAIN(setting, "train.steps=4", change[i].setting, change[i].more);
    if (!p.status != !change[i].refused) fail_msg("case %zu: %d: %s", i, p.status, p.err);
    expect_in(p.err, change[i].says);
  }
  remove_other();
  TRAIN("train.steps=3", "train.fp8=none");
  assert_int_equal(p.status, 0);
  RUN(&p, "train", "--run-dir", other, "--resume", "train.steps=4", "train.fp8=hybrid");
  assert_int_equal(p.status, 0);
  expect_in(p.err, "has no scales of fp8; they begin at 1");
}

/* Two parts of the model with one product each: the number of scales does not tell them apart. */
static void scales_of_other_products_are_refused(void **state) {
  remove_other();
  TRAIN("train.steps=3", "train.amp-rule=head=f32");
  assert_int_equal(p.status, 0);
  RUN(&p, "train", "--run-dir", other, "--resume", "train.steps=4",
      "train.amp-rule=patch_embed=f32");
  assert_int_equal(p.status, 2);
  expect_in(p.err, "train: settings amp, amp-rule: the checkpoint");
  RUN(&p, "train", "--run-dir", other, "--resume", "train.steps=4", "train.amp-rule=head = f32");
  if (p.status) fail_msg("%s", p.err);
}

static void settings_that_exclude_fp8_are_refused_before_the_first_step(void **state) {
  static const char *const bad[][2] = {
      {"train.remat=full", "setting remat = full: with fp8 blocks cannot be recomputed"},
      {"train.fit=2GiB", "setting fit = 2GiB: it chooses remat"},
      {"train.dtype=f16", "setting fp8 = hybrid: the model computes in f16, want dtype=bf16"},
      {"train.amp-rule=linear=f32", "fp8: no product of bf16 operands"},
      {"train.amp=jaxamp", "dtype=bf16 with amp=usual makes them"},
      {"train.fp8-history=0", "fp8-history"},
      {"train.device=opencl:1", "setting device = opencl:1: it has no kernels of f8"},
      {"train.fp8=e5m2", "fp8"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    remove_other();
    TRAIN(bad[i][0]);
    assert_int_not_equal(p.status, 0);
    expect_in(p.err, bad[i][1]);
  }
  RUN(&p, "mem", "step", "--layers", "1", "--fp8", "hybrid", "--fit", "1GiB");
  expect_in(p.err, "mem: --fit: it chooses remat, which does not go with --fp8");
}

/* Evaluation computes in bf16 and reads the parameters alone. */
static void a_checkpoint_in_f8_is_evaluated(void **state) {
  char from[192];
  checkpoint_of(whole, STEPS, from);
  RUN(&p, "eval", "--data", "synthetic", from);
  if (p.status) fail_msg("%s%s", p.out, p.err);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_resumed_run_ends_with_the_same_bytes),
      cmocka_unit_test(losses_are_near_those_of_bf16),
      cmocka_unit_test(a_state_that_no_run_writes_is_refused),
      cmocka_unit_test(another_precision_at_a_resume_is_refused_or_said),
      cmocka_unit_test(scales_of_other_products_are_refused),
      cmocka_unit_test(settings_that_exclude_fp8_are_refused_before_the_first_step),
      cmocka_unit_test(a_checkpoint_in_f8_is_evaluated),
  };
  return cmocka_run_group_tests(tests, group_setup, small_run_forget);
}
