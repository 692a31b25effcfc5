/* Validations within an epoch, the checkpoints that they call the best, the end of a run that no
   longer improves, and parameters that are trained in their own way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <math.h>

#include "base/safetensors.h"
#include "tests/apps/small_run.h"

#define GRAPH                                                                                   \
  "let run = unset\n"                                                                           \
  "synthetic name=data n=96 ! shuffle seed=1 epochs=4 ! normalize preset=cifar10\n"             \
  "  ! batch 8 drop-remainder name=batches\n"                                                   \
  "  ! train-step name=train layers=2 embed=16 mlp=16 heads=2 style=timm dtype=f32 threads=1\n" \
  "synthetic name=held n=32 split=valid ! sequential epochs=0 ! normalize preset=cifar10\n"     \
  "  ! batch 16 name=held-batches ! train.valid\n"                                              \
  "synthetic name=dogs n=16 seed=9 split=valid ! sequential epochs=0\n"                         \
  "  ! normalize preset=cifar10 ! batch 16 name=dogs-batches ! train.valid.dogs\n"              \
  "train.metrics ! progress\n"                                                                  \
  "train.metrics ! jsonl path=$run/metrics.jsonl\n"                                             \
  "train.state ! checkpoint dir=$run/checkpoints\n"

enum { EVERY = 5, STEPS = 48 };

static int make_folder(void **state) { return small_run("judged", GRAPH) || program_forget(whole); }

static const char *path(const char *run, const char *name) {
  static char text[4][160];
  static int turn;
  char *to = text[turn++ % 4];
  snprintf(to, sizeof text[0], "%s/%s", run, name);
  return to;
}

static void train_into(const char *run, const char *const *more) {
  const char *words[20] = {"train", "--graph", file, "--run-dir", run};
  int n = 5;
  for (; *more; more++) words[n++] = *more;
  program_run(&p, words);
  if (p.status) fail_msg("status %d: %s%s", p.status, p.out, p.err);
}
#define TRAIN(run, ...) train_into(run, (const char *[]){__VA_ARGS__, NULL})

/* The steps of the checkpoints in a run's folder, as a set. */
static uint64_t steps_there(const char *run) {
  DIR *d = opendir(path(run, "checkpoints"));
  uint64_t set = 0;
  assert_non_null(d);
  for (struct dirent *e; (e = readdir(d));) {
    int step;
    if (sscanf(e->d_name, "step-%d.safetensors", &step) == 1) set |= UINT64_C(1) << step;
  }
  closedir(d);
  return set;
}

static int link_of(const char *run, const char *name) {
  char to[128] = "";
  int step = -1;
  assert_true(readlink(path(run, name), to, sizeof to - 1) > 0);
  assert_int_equal(sscanf(to, "step-%d", &step), 1);
  return step;
}

/* A number of each validation of an input, by its step; NaN: there was none. */
static void read_validations(const char *run, const char *kind, const char *number, double *out) {
  char begins[64], name[64], line[8192];
  FILE *f = fopen(path(run, "metrics.jsonl"), "r");
  snprintf(begins, sizeof begins, "{\"kind\":\"%s\",\"step\":", kind);
  snprintf(name, sizeof name, "\"%s\":", number);
  for (int i = 0; i <= STEPS; i++) out[i] = NAN;
  assert_non_null(f);
  while (fgets(line, sizeof line, f))
    if (!strncmp(line, begins, strlen(begins)))
      out[atoi(line + strlen(begins))] = atof(strstr(line, name) + strlen(name));
  fclose(f);
}

static void validations_come_within_epochs_each_with_a_checkpoint(void **state) {
  double loss[STEPS + 1];
  TRAIN(whole, "validate-every=5", "checkpoint.keep=0");
  read_validations(whole, "valid.dogs", "loss", loss);
  uint64_t want = 0;
  for (int i = 1; i <= STEPS; i++) {
    bool due = i % EVERY == 0 || i % 12 == 0;
    want |= (uint64_t)due << i;
    if (due == isnan(loss[i])) fail_msg("step %d: %s validation", i, due ? "no" : "a");
  }
  assert_true(steps_there(whole) == want);
  assert_non_null(strstr(p.out, "Validation in epoch 1 (step 5)"));
  assert_non_null(strstr(p.out, "Validation valid.dogs after epoch 2 (step 24)"));
}

/* Held-back records may all have names of their own. */
static void named_inputs_alone_are_validated_by_step_and_by_the_clock(void **state) {
  static const char *const often[] = {"validate-every=5", "validate-minutes=1e-9"};
  static const char named[] = "named-batches ! train.valid.cats";
  double loss[STEPS + 1];
  char graph[sizeof GRAPH + 64] = GRAPH, *at = strstr(graph, "held-batches ! train.valid\n");
  char rest[sizeof graph];
  strcpy(rest, at + strlen("held-batches ! train.valid"));
  strcpy(at, named), strcat(at, rest);
  snprintf(rest, sizeof rest, "%s/named.mr", dir);
  assert_int_equal(mr_write_file(rest, graph, strlen(graph), NULL), MR_OK);
  for (int i = 0; i < 2; i++) {
    RUN(&p, "train", "--graph", rest, "--run-dir", other, often[i], "--steps", "6");
    assert_int_equal(p.status, 0);
    if (strstr(p.err, "changes nothing")) fail_msg("%s", p.err);
    read_validations(other, "valid.cats", "loss", loss);
    assert_false(isnan(loss[5]));
    if (isnan(loss[6]) != !i) fail_msg("%s: %g after step 6", often[i], loss[6]);
    assert_int_equal(program_forget(other), 0);
  }
}

/* The best by a number of the validations up to a step, of equal ones the earliest. */
static uint64_t best_of(const double *v, int to, int n, bool more, int *first) {
  uint64_t set = 0;
  for (int k = 0; k < n; k++) {
    int best = 0;
    for (int i = 1; i <= to; i++)
      if (!isnan(v[i]) && !(set >> i & 1) && (!best || (more ? v[i] > v[best] : v[i] < v[best])))
        best = i;
    set |= UINT64_C(1) << best;
    if (!k) *first = best;
  }
  return set;
}

static void expect_best(const char *run, const char *kind, const char *number, bool more, int keep,
                        int to) {
  double v[STEPS + 1];
  int first = 0;
  read_validations(run, kind, number, v);
  uint64_t want = best_of(v, to, 3, more, &first), newest = 0;
  for (int i = to, n = 0; i > 0 && n < keep; i--)
    if (!isnan(v[i])) newest |= UINT64_C(1) << i, n++;
  assert_int_equal(link_of(run, "checkpoints/best"), first);
  if (steps_there(run) != (want | newest))
    fail_msg("there is %llx, want %llx and %llx", (long long)steps_there(run), (long long)want,
             (long long)newest);
}

static void the_best_checkpoints_stay_by_any_metric_of_any_input(void **state) {
  TRAIN(other, "validate-every=5", "best=3", "best-by=valid.dogs/accuracy", "lr=0.01");
  expect_best(other, "valid.dogs", "accuracy", true, 2, STEPS);
  assert_int_equal(program_forget(other), 0);
  TRAIN(other, "validate-every=5", "best=3", "keep=1", "lr=0.01");
  expect_best(other, "valid", "loss", false, 1, STEPS);
  RUN(&p, "eval", path(other, "checkpoints/best"), "--split", "valid");
  assert_int_equal(p.status, 0);
  assert_int_equal(program_forget(other), 0);
}

static void a_resumed_run_compares_with_the_best_from_before(void **state) {
  TRAIN(other, "validate-every=5", "best=3", "lr=0.01", "--steps", "30");
  expect_best(other, "valid", "loss", false, 2, 30);
  RUN(&p, "train", "--resume", "--run-dir", other, "--steps", "0");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  expect_best(other, "valid", "loss", false, 2, STEPS);
  assert_int_equal(program_forget(other), 0);
}

/* The ledger of what was said. */
static void ledger_of(char text[32]) {
  const char *at = strstr(p.out, "\nledger ");
  assert_non_null(at);
  snprintf(text, 32, "%.16s", at + 8);
}

static void a_run_that_no_longer_improves_ends_also_where_it_is_resumed(void **state) {
  char early[32], again[32];
  assert_int_equal(program_forget(whole), 0);
  TRAIN(whole, "validate-every=5", "stop-after=2", "stop-by=valid.dogs/loss", "stop-delta=9");
  assert_non_null(strstr(p.out, "Done: 12 steps"));
  assert_non_null(strstr(p.out, "ended early: valid.dogs/loss was best at step 5"));
  ledger_of(early);
  for (int cut = 1; cut < 12; cut += 4) {
    char steps[16];
    snprintf(steps, sizeof steps, "steps=%d", cut);
    TRAIN(other, "validate-every=5", "stop-after=2", "stop-by=valid.dogs/loss", "stop-delta=9",
          steps);
    RUN(&p, "train", "--resume", "--run-dir", other, "steps=0");
    assert_non_null(strstr(p.out, "Done: 12 steps"));
    ledger_of(again);
    assert_string_equal(early, again);
    RUN(&p, "train", "--resume", "--run-dir", other);
    assert_non_null(strstr(p.out, "nothing to do"));
    assert_int_equal(program_forget(other), 0);
  }
}

static mr_safetensors_t *open_state(const char *run, int step) {
  char name[64];
  mr_safetensors_t *f = NULL;
  mr_diag_t diag = {0};
  snprintf(name, sizeof name, "checkpoints/step-%06d.safetensors", step);
  if (mr_safetensors_open(path(run, name), &f, &diag) < 0) fail_msg("%s", diag.text);
  return f;
}

static void meta_of(const char *run, int step, const char *name, char text[512]) {
  mr_safetensors_t *f = open_state(run, step);
  const char *there = mr_safetensors_meta(f, name);
  snprintf(text, 512, "%s", there ? there : "");
  mr_safetensors_close(f);
}

static void a_resume_that_ends_at_once_keeps_what_its_state_was_judged_by(void **state) {
  char judged[512], again[512];
  TRAIN(other, "validate-every=5", "stop-delta=9", "steps=10");
  meta_of(other, 10, "millrace.judged", judged);
  assert_non_null(strstr(judged, "valid.dogs/loss="));
  RUN(&p, "train", "--resume", "--run-dir", other, "steps=0", "stop-after=1");
  assert_non_null(strstr(p.out, "Done: 10 steps"));
  meta_of(other, 10, "millrace.judged", again);
  assert_string_equal(judged, again);
  assert_int_equal(program_forget(other), 0);
}

static void the_best_by_another_number_is_forgotten(void **state) {
  char by[512];
  TRAIN(other, "validate-every=5", "stop-delta=9", "steps=10");
  meta_of(other, 10, "millrace.best_by", by);
  assert_string_equal(by, "valid/loss");
  RUN(&p, "train", "--resume", "--run-dir", other, "steps=12", "stop-after=1",
      "stop-by=valid.dogs/loss");
  assert_non_null(strstr(p.out, "Done: 12 steps"));
  meta_of(other, 12, "millrace.best_by", by);
  assert_string_equal(by, "valid.dogs/loss");
  assert_int_equal(program_forget(other), 0);
}

/* At rate 0 all are equal, and the first one is the best. */
static void a_resume_that_first_asks_for_the_best_points_to_it(void **state) {
  TRAIN(other, "validate-every=5", "keep=0", "lr=0", "steps=30");
  assert_int_not_equal(access(path(other, "checkpoints/best"), F_OK), 0);
  RUN(&p, "train", "--resume", "--run-dir", other, "steps=35", "best=3");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  assert_int_equal(link_of(other, "checkpoints/best"), 5);
  assert_int_equal(program_forget(other), 0);
}

static void a_resume_says_that_other_parameters_decay(void **state) {
  TRAIN(other, "no-decay=none", "weight-decay=0.1", "steps=2");
  RUN(&p, "train", "--resume", "--run-dir", other, "steps=3");
  assert_null(strstr(p.err, "no-decay"));
  RUN(&p, "train", "--resume", "--run-dir", other, "steps=4", "no-decay=vectors");
  assert_non_null(strstr(p.err,
                         "no-decay=vectors from here on, and the checkpoint was trained "
                         "with no-decay=none"));
  assert_int_equal(program_forget(other), 0);
}

static void an_end_by_records_that_are_not_there_is_refused(void **state) {
  RUN(&p, "train", "--graph", file, "--run-dir", other, "stop-after=2", "stop-by=valid.cats/loss");
  assert_int_not_equal(p.status, 0);
  if (!strstr(p.err,
              "setting stop-after = 2: stop-by = valid.cats/loss asks for input valid.cats, "
              "and inputs of held-back records are valid, valid.dogs"))
    fail_msg("said %s", p.err);
}

/* ---- parameters in their own way ---- */

/* Of two states, how far one parameter of both moved from `from`: the larger distance of an element
   in a, over the same element's in b. */
static double moved(const mr_safetensors_t *from, const mr_safetensors_t *a,
                    const mr_safetensors_t *b, const char *name) {
  const mr_st_tensor_t *o = mr_safetensors_find(from, name), *x = mr_safetensors_find(a, name),
                       *y = mr_safetensors_find(b, name);
  if (!o || !x || !y) fail_msg("no %s", name);
  int64_t n = 1, at = 0;
  for (int d = 0; d < o->ndim; d++) n *= o->dim[d];
  const float *p0 = o->data, *p1 = x->data, *p2 = y->data;
  for (int64_t i = 0; i < n; i++)
    if (fabsf(p2[i] - p0[i]) > fabsf(p2[at] - p0[at])) at = i;
  return ((double)p1[at] - (double)p0[at]) / ((double)p2[at] - (double)p0[at]);
}

/* Two runs of a step from the same parameters, which `start` has after a step of rate 0; sgd moves
   each by its learning rate times its gradient. */
static void expect_moved(const char *settings, const char *name, double want) {
  const char *start = path(dir, "start");
  if (access(start, F_OK)) {
    TRAIN(start, "optimizer=sgd", "lr=0", "steps=1");
    if (!access(whole, F_OK)) assert_int_equal(program_forget(whole), 0);
    TRAIN(whole, "optimizer=sgd", "lr=0.5", "steps=1");
  }
  TRAIN(other, "optimizer=sgd", "lr=0.5", "steps=1", settings);
  mr_safetensors_t *from = open_state(start, 1), *a = open_state(other, 1),
                   *b = open_state(whole, 1);
  double got = moved(from, a, b, name);
  if (fabs(got - want) > 1e-3)
    fail_msg("%s: %s moved %g times, want %g", settings, name, got, want);
  mr_safetensors_close(from), mr_safetensors_close(a), mr_safetensors_close(b);
  assert_int_equal(program_forget(other), 0);
}

static void layers_have_learning_rates_of_their_own(void **state) {
  expect_moved("layer-decay=0.5", "params/head.weight", 1);
  expect_moved("layer-decay=0.5", "params/norm.bias", 1);
  expect_moved("layer-decay=0.5", "params/blocks.1.mlp.fc1.weight", 0.5);
  expect_moved("layer-decay=0.5", "params/blocks.0.attn.qkv.weight", 0.25);
  expect_moved("layer-decay=0.5", "params/pos_embed", 0.125);
}

static void frozen_parameters_stay_and_others_do_not(void **state) {
  const char *const settings = "freeze=patch_embed,blocks.?.attn,pos_embed";
  expect_moved(settings, "params/patch_embed.proj.weight", 0);
  expect_moved(settings, "params/blocks.1.attn.proj.bias", 0);
  expect_moved(settings, "params/pos_embed", 0);
  expect_moved(settings, "params/blocks.1.mlp.fc2.bias", 1);
  expect_moved(settings, "params/cls_token", 1);
}

static void classes_weigh_what_their_setting_says(void **state) {
  expect_moved("class-weights=2,2,2,2,2,2,2,2,2,2", "params/head.weight", 2);
  expect_moved("class-weights=0,0,0,0,0,0,0,0,0,0", "params/head.weight", 0);
  expect_moved("class-weights=bars:1,disc:1", "params/head.weight", 1);
}

/* lion moves by the learning rate and, with decay, by a share of the value besides. */
static void parameters_named_by_no_decay_do_not_decay(void **state) {
  assert_int_equal(program_forget(whole), 0);
  static const char *const name[] = {"params/norm.weight", "params/pos_embed",
                                     "params/head.weight"};
  static const struct {
    const char *setting;
    bool decays[3];
  } row[] = {{"layers=2", {false, false, true}}, /* timm's rule */
             {"no-decay=none", {true, true, true}},
             {"no-decay=vectors", {false, true, true}},
             {"no-decay=head,pos_*", {true, false, false}},
             {"style=flax", {true, true, true}}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    for (int decay = 0; decay < 2; decay++) {
      TRAIN(decay ? other : whole, "optimizer=lion", "lr=0.001", "steps=1",
            decay ? "weight-decay=10" : "weight-decay=0", row[i].setting);
      if (!decay) continue;
      mr_safetensors_t *a = open_state(whole, 1), *b = open_state(other, 1);
      for (int k = 0; k < 3; k++) {
        bool flax = strstr(row[i].setting, "flax") != NULL;
        const char *called = flax && k == 0   ? "params/norm.scale"
                             : flax && k == 2 ? "params/head.kernel"
                                              : name[k];
        const mr_st_tensor_t *x = mr_safetensors_find(a, called),
                             *y = mr_safetensors_find(b, called);
        if (!x || !y) fail_msg("no %s", called);
        bool same = ((const float *)x->data)[0] == ((const float *)y->data)[0];
        if (same == row[i].decays[k])
          fail_msg("%s: %s %s", row[i].setting, called, same ? "does not decay" : "decays");
      }
      mr_safetensors_close(a), mr_safetensors_close(b);
      assert_int_equal(program_forget(whole), 0);
      assert_int_equal(program_forget(other), 0);
    }
}

static void wrong_names_are_refused_with_the_nearest_ones(void **state) {
  static const struct {
    const char *setting, *said;
  } row[] = {
      {"best-by=acuracy", "did you mean \"accuracy\""},
      {"stop-by=valid/los", "did you mean \"loss\""},
      {"freeze=blcks.0", "\"blcks.0\" is no parameter; nearest are blocks.0, blocks.1"},
      {"no-decay=vectors,had", "\"had\" is no parameter; nearest are head"},
      {"freeze=*", "is all 32 parameters"},
      {"init=xavier_unifrom", "did you mean \"xavier_uniform\""},
      {"init=hed=zeros", "init: \"hed\" is no parameter; nearest are head"},
      {"class-weights=1,2", "2 numbers, want one for each of 10 classes"},
      {"class-weights=disc:2,cow:1", "cow:1: want NAME:NUMBER with the name of a class"},
      {"class-weights=disc:x", "want a number of"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    RUN(&p, "train", "--graph", file, "--run-dir", other, "best=1", row[i].setting);
    assert_int_not_equal(p.status, 0);
    if (!strstr(p.err, row[i].said)) fail_msg("%s: said %s", row[i].setting, p.err);
  }
  RUN(&p, "train", "--graph", file, "--run-dir", other, "warmup=3", "warmup-epochs=1");
  assert_non_null(strstr(p.err, "want one of them"));
  RUN(&p, "train", "--graph", file, "--run-dir", other, "model=mlp", "layer-decay=0.5",
      "style=timm");
  assert_int_not_equal(p.status, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(validations_come_within_epochs_each_with_a_checkpoint),
      cmocka_unit_test(named_inputs_alone_are_validated_by_step_and_by_the_clock),
      cmocka_unit_test(the_best_checkpoints_stay_by_any_metric_of_any_input),
      cmocka_unit_test(a_resumed_run_compares_with_the_best_from_before),
      cmocka_unit_test(a_run_that_no_longer_improves_ends_also_where_it_is_resumed),
      cmocka_unit_test(a_resume_that_ends_at_once_keeps_what_its_state_was_judged_by),
      cmocka_unit_test(the_best_by_another_number_is_forgotten),
      cmocka_unit_test(a_resume_that_first_asks_for_the_best_points_to_it),
      cmocka_unit_test(a_resume_says_that_other_parameters_decay),
      cmocka_unit_test(an_end_by_records_that_are_not_there_is_refused),
      cmocka_unit_test(layers_have_learning_rates_of_their_own),
      cmocka_unit_test(frozen_parameters_stay_and_others_do_not),
      cmocka_unit_test(classes_weigh_what_their_setting_says),
      cmocka_unit_test(parameters_named_by_no_decay_do_not_decay),
      cmocka_unit_test(wrong_names_are_refused_with_the_nearest_ones),
  };
  return cmocka_run_group_tests(tests, make_folder, small_run_forget);
}
