/* The settings of mixed precision, as a user gives them: what runs, what is kept, what a resume
   ends with, and what is refused with which sentence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/safetensors.h"
#include "tests/apps/program.h"

static char dir[] = "/tmp/millrace-amp-XXXXXX";
static program_t p;

static int setup(void **state) { return mkdtemp(dir) ? 0 : -1; }

static int teardown(void **state) {
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", dir);
  return system(command);
}

/* Trains steps of a small model in dir/name with further words; ends with the status. */
static int train(const char *name, int steps, bool resume, const char *word, ...) {
  char folder[128], count[32];
  const char *args[24] = {"train", "--data",  "synthetic", "--run-dir", folder,   "--steps",
                          count,   "batch=8", "layers=1",  "embed=32",  "mlp=32", "heads=2"};
  int n = 12;
  va_list more;
  snprintf(folder, sizeof folder, "%s/%s", dir, name);
  snprintf(count, sizeof count, "%d", steps);
  if (resume) args[n++] = "--resume";
  va_start(more, word);
  for (const char *w = word; w; w = va_arg(more, const char *)) args[n++] = w;
  va_end(more);
  args[n] = NULL;
  program_run(&p, args);
  return p.status;
}

#define TRAIN(name, steps, resume, ...) train(name, steps, resume, __VA_ARGS__, NULL)
#define SUCCEEDS(...)                              \
  do {                                             \
    if (TRAIN(__VA_ARGS__)) fail_msg("%s", p.err); \
  } while (0)

static char *checkpoint(const char *name) {
  static char path[2][160];
  static int turn;
  turn = !turn;
  snprintf(path[turn], sizeof path[turn], "%s/%s/checkpoints/latest", dir, name);
  return path[turn];
}

static mr_dtype_t dtype_in(const char *name, const char *tensor) {
  mr_safetensors_t *f = NULL;
  mr_diag_t diag = {0};
  if (mr_safetensors_open(checkpoint(name), &f, &diag) < 0) fail_msg("%s", diag.text);
  const mr_st_tensor_t *t = mr_safetensors_find(f, tensor);
  assert_non_null(t);
  mr_dtype_t dtype = t->dtype;
  mr_safetensors_close(f);
  return dtype;
}

/* How many elements of the norms' scales, which begin as 1, differ between two runs. */
static double distance_of_norms(const char *a, const char *b) {
  mr_safetensors_t *f = NULL, *g = NULL;
  mr_diag_t diag = {0};
  double moved = 0, all = 0;
  if (mr_safetensors_open(checkpoint(a), &f, &diag) < 0) fail_msg("%s", diag.text);
  if (mr_safetensors_open(checkpoint(b), &g, &diag) < 0) fail_msg("%s", diag.text);
  for (int i = 0; i < mr_safetensors_count(f); i++) {
    const mr_st_tensor_t *t = mr_safetensors_at(f, i), *u = mr_safetensors_find(g, t->name);
    size_t n = strlen(t->name);
    if (strncmp(t->name, "params/", 7) || n < 6 || strcmp(t->name + n - 6, ".scale")) continue;
    const uint16_t *x = t->data, *y = u->data;
    for (int64_t k = 0; k < t->dim[0]; k++) moved += x[k] != y[k], all++;
  }
  mr_safetensors_close(f), mr_safetensors_close(g);
  assert_true(all > 0);
  return moved;
}

static void assert_same_file(const char *a, const char *b) {
  char command[400];
  snprintf(command, sizeof command, "cmp %s %s", a, b);
  assert_int_equal(system(command), 0);
}

static void parameters_that_are_kept_narrow_resume_to_the_bit(void **state) {
  static const char *const words[][3] = {{"param-dtype=bf16", "master=none", "slot-dtype=bf16"},
                                         {"param-dtype=f16", "master=f32", "slot-dtype=f32"},
                                         {"param-dtype=bf16", "master=none", "ema=0.9"}};
  static const mr_dtype_t values[] = {MR_BF16, MR_F32, MR_BF16},
                          slots[] = {MR_BF16, MR_F32, MR_F32};
  for (int i = 0; i < 3; i++) {
    char whole[16], parts[16];
    snprintf(whole, sizeof whole, "whole%d", i), snprintf(parts, sizeof parts, "parts%d", i);
    SUCCEEDS(whole, 6, false, words[i][0], words[i][1], words[i][2], "schedule=constant");
    SUCCEEDS(parts, 3, false, words[i][0], words[i][1], words[i][2], "schedule=constant");
    SUCCEEDS(parts, 6, true, words[i][0], words[i][1], words[i][2], "schedule=constant");
    assert_same_file(checkpoint(whole), checkpoint(parts));
    assert_int_equal(dtype_in(whole, "params/head.kernel"), values[i]);
    assert_int_equal(dtype_in(whole, "adam.m/head.kernel"), slots[i]);
    RUN(&p, "eval", checkpoint(whole), "--data", "synthetic");
    if (p.status) fail_msg("%s", p.err);
  }
  assert_int_not_equal(TRAIN("parts0", 9, true, "param-dtype=f32", "schedule=constant"), 0);
  assert_non_null(strstr(p.err, "param-dtype="));
}

/* Stochastic rounding is drawn by seed and step: a resumed run ends with the same bytes, on any
   number of threads; and an update that nearest loses moves the parameters. */
static void stochastic_rounding_resumes_to_the_bit_and_keeps_small_updates(void **state) {
#define KEPT "param-dtype=bf16", "master=none", "slot-dtype=bf16", "schedule=constant"
  SUCCEEDS("dice", 6, false, KEPT, "rounding=stochastic", "train.threads=1");
  assert_null(strstr(p.err, "rounded away"));
  SUCCEEDS("dice-parts", 3, false, KEPT, "rounding=stochastic", "train.threads=2");
  SUCCEEDS("dice-parts", 6, true, KEPT, "rounding=stochastic", "train.threads=3");
  assert_same_file(checkpoint("dice"), checkpoint("dice-parts"));
  SUCCEEDS("seeded", 6, false, KEPT, "rounding=stochastic", "train.seed=13");
  char command[400];
  /* Adam moves each parameter by about lr a step: 4e-4 is below 2^-9 of those near 1. */
  SUCCEEDS("begun", 1, false, KEPT, "train.lr=0");
  SUCCEEDS("lost", 6, false, KEPT, "train.lr=4e-4");
  SUCCEEDS("found", 6, false, KEPT, "train.lr=4e-4", "rounding=stochastic");
  double moved[2];
  static const char *const run[] = {"lost", "found"};
  for (int i = 0; i < 2; i++) moved[i] = distance_of_norms(run[i], "begun");
  assert_true(moved[0] == 0 && moved[1] > 5);
  snprintf(command, sizeof command, "cmp -s %s %s", checkpoint("dice"), checkpoint("seeded"));
  assert_int_not_equal(system(command), 0);
  assert_int_not_equal(TRAIN("bad", 2, false, "rounding=stochastic", "lr=1e-3"), 0);
  assert_non_null(strstr(p.err,
                         "setting rounding = stochastic: parameters and moments are kept in "
                         "f32, want master=none or slot-dtype=bf16 beside it"));
}

/* The loss of the test records in a file of metrics, as it is written there. */
static void test_loss(const char *path, char loss[64]) {
  char line[4096];
  FILE *f = fopen(path, "r");
  *loss = 0;
  if (!f) fail_msg("%s is missing: %s", path, p.err);
  while (fgets(line, sizeof line, f)) {
    const char *at = strstr(line, "\"kind\":\"test\"") ? strstr(line, "\"loss\":") : NULL;
    if (at) snprintf(loss, 64, "%.*s", (int)strcspn(at, ",}"), at);
  }
  fclose(f);
  assert_true(*loss);
}

static void evaluated(const char *word, char loss[64]) {
  char graph[700], path[160];
  snprintf(path, sizeof path, "%s/eval%s.jsonl", dir, *word ? "-as-run" : "");
  snprintf(graph, sizeof graph,
           "synthetic split=test ! normalize preset=cifar10 ! batch 256 ! eval-step %s dtype=f32 "
           "%s ! jsonl %s",
           checkpoint("read"), word, path);
  RUN(&p, "run", graph);
  if (p.status) fail_msg("%s", p.err);
  test_loss(path, loss);
}

/* What a run says of the test records at its end is what eval-step says with the same settings. */
static void eval_step_reads_parameters_as_the_run_did(void **state) {
  char path[160], run[64], same[64], other[64];
  SUCCEEDS("read", 4, false, "param-dtype=bf16", "train.dtype=f32");
  snprintf(path, sizeof path, "%s/read/metrics.jsonl", dir);
  test_loss(path, run);
  evaluated("param-dtype=bf16", same);
  evaluated("", other);
  assert_string_equal(run, same);
  assert_string_not_equal(run, other);
}

/* `millrace eval` computes as the run did, unless its flags say otherwise. */
static void eval_computes_as_the_run_did(void **state) {
  static const char *const words[][3] = {
      {"train.dtype=f32", "param-dtype=bf16", "lr=1e-2"},
      {"train.dtype=bf16", "amp-rule=head=f32, attn=original, gelu=f32", "lr=1e-2"},
      {"train.dtype=bf16", "amp=jaxamp", "lr=1e-2"},
      {"train.dtype=f32", "amp=none", "lr=1e-2"},
      {"train.dtype=f16", "loss-scale=dynamic", "lr=1e-2"}};
  char path[160], json[160], run[64], own[64], other[64];
  snprintf(json, sizeof json, "%s/judged.jsonl", dir);
  for (int i = 0; i < 5; i++) {
    char name[16];
    const char *dtype = strchr(words[i][0], '=') + 1;
    snprintf(name, sizeof name, "judged%d", i);
    SUCCEEDS(name, 4, false, words[i][0], words[i][1], words[i][2]);
    snprintf(path, sizeof path, "%s/%s/metrics.jsonl", dir, name);
    test_loss(path, run);
    RUN(&p, "eval", checkpoint(name), "--jsonl", json);
    test_loss(json, own);
    assert_string_equal(run, own);
    RUN(&p, "eval", checkpoint(name), "--jsonl", json, "--dtype", dtype);
    test_loss(json, own);
    if (i != 3) assert_string_equal(run, own);
    RUN(&p, "eval", checkpoint(name), "--jsonl", json, "--dtype",
        strcmp(dtype, "f32") ? "f32" : "bf16");
    test_loss(json, other);
    assert_string_not_equal(run, other);
  }
  RUN(&p, "eval", checkpoint("judged1"), "--jsonl", json, "--amp-rule", "head=bad");
  assert_int_equal(p.status, 2);
  RUN(&p, "eval", checkpoint("judged0"), "--jsonl", json, "--param-dtype", "f32");
  test_loss(json, other);
  assert_string_not_equal(run, other);
}

/* A resume in another precision says so; parameters that are kept in another dtype are refused. */
static void a_resume_in_another_precision_says_so(void **state) {
  SUCCEEDS("change", 2, false, "schedule=constant");
  SUCCEEDS("change", 3, true, "train.dtype=f16", "amp-rule=head=f32", "schedule=constant");
  assert_non_null(strstr(p.out, "changed: train.dtype: bf16 -> f16"));
  assert_non_null(strstr(p.out, "changed: train.amp-rule: none -> head=f32"));
  SUCCEEDS("change", 4, true, "amp=jaxamp", "param-dtype=bf16", "schedule=constant");
  assert_non_null(strstr(p.out, "changed: train.amp: usual -> jaxamp"));
  assert_non_null(strstr(p.out, "changed: train.param-dtype: f32 -> bf16"));
  assert_int_not_equal(TRAIN("change", 5, true, "master=none", "schedule=constant"), 0);
  assert_non_null(strstr(p.err, "another param-dtype=, master= or slot-dtype="));
}

static void f16_with_a_fixed_scale_is_said(void **state) {
  SUCCEEDS("fixed", 2, false, "train.dtype=f16", "loss-scale=256");
  assert_non_null(strstr(p.err,
                         "train: dtype=f16 with loss-scale=256: scaled gradients below 6e-8 "
                         "are 0"));
  SUCCEEDS("moving", 2, false, "train.dtype=f16", "loss-scale=dynamic");
  assert_null(strstr(p.err, "scaled gradients"));
}

static void rules_change_what_they_name_alone(void **state) {
  SUCCEEDS("plain", 3, false, "lr=1e-3");
  SUCCEEDS("same", 3, false, "amp=usual", "amp-rule=head=class");
  assert_same_file(checkpoint("plain"), checkpoint("same"));
  SUCCEEDS("head", 3, false, "amp-rule=head=f32, attn=original");
  char command[400];
  snprintf(command, sizeof command, "cmp -s %s %s", checkpoint("plain"), checkpoint("head"));
  assert_int_not_equal(system(command), 0);
  SUCCEEDS("jaxamp", 3, false, "amp=jaxamp");
  SUCCEEDS("none", 3, false, "amp=none", "train.dtype=f32");
  SUCCEEDS("f32", 3, false, "train.dtype=f32");
  assert_same_file(checkpoint("none"), checkpoint("f32"));
  SUCCEEDS("f16", 3, false, "train.dtype=f16", "loss-scale=dynamic");
}

static void settings_that_do_nothing_are_refused(void **state) {
  static const struct {
    const char *words[2], *says;
  } bad[] = {{{"amp=none", "lr=1e-3"}, "dtype=f32"},
             {{"amp-rule=hed=f32", "lr=1e-3"}, "no op and no part of the model is called \"hed\""},
             {{"amp-rule=head", "lr=1e-3"}, "NAME=RULE"},
             {{"amp-rule=head=f32", "train.dtype=f32"}, "nothing computes narrower"},
             {{"master=none", "lr=1e-3"}, "param-dtype=bf16 or f16"},
             {{"amp-rule=softmax_cross_entropy=compute", "lr=1e-3"},
              "amp-rule: softmax_cross_entropy=compute: softmax_cross_entropy does not take bf16, "
              "want f32, original or class"},
             {{"slot-dtype=f16", "lr=1e-3"}, "slot-dtype"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_int_not_equal(TRAIN("bad", 2, false, bad[i].words[0], bad[i].words[1]), 0);
    if (!strstr(p.err, bad[i].says)) fail_msg("%s: %s", bad[i].words[0], p.err);
  }
  char graph[400];
  snprintf(graph, sizeof graph,
           "synthetic split=test ! normalize preset=cifar10 ! batch 256 ! eval-step %s "
           "amp-rule=typo=f32 ! null",
           checkpoint("read"));
  RUN(&p, "run", graph);
  assert_int_not_equal(p.status, 0);
  assert_non_null(strstr(p.err, "called \"typo\""));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parameters_that_are_kept_narrow_resume_to_the_bit),
      cmocka_unit_test(stochastic_rounding_resumes_to_the_bit_and_keeps_small_updates),
      cmocka_unit_test(eval_step_reads_parameters_as_the_run_did),
      cmocka_unit_test(eval_computes_as_the_run_did),
      cmocka_unit_test(a_resume_in_another_precision_says_so),
      cmocka_unit_test(f16_with_a_fixed_scale_is_said),
      cmocka_unit_test(rules_change_what_they_name_alone),
      cmocka_unit_test(settings_that_do_nothing_are_refused),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
