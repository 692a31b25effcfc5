/* A class is a name: streams that meet, held-back records, checkpoints and resumed runs are
   compared by the names of their classes, never by position. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/safetensors.h"
#include "loaders/loaders.h"
#include "metrics/report.h"
#include "pipeline/graph/graph.h"
#include "pipeline/stage_map.h"
#include "pipeline/stage_source.h"
#include "pipeline/stage_step.h"
#include "sinks/sinks.h"
#include "stages/stages.h"
#include "stages/train/inputs.h"

/* ---- records whose values follow from the names of their classes ---- */

enum { NAMES_MAX = 16, NAME = 16 };

typedef struct named {
  const char *names;
  int64_t n, first, classes;
  char text[NAMES_MAX][NAME];
  const char *name[NAMES_MAX];
  mr_classes_t list;
  mr_dataset_t dataset;
} named_t;

static const mr_opt_t named_opts[] = {{.name = "names",
                                       .type = MR_OPT_STR,
                                       .offset = offsetof(named_t, names),
                                       .def = "",
                                       .help = "Classes; none: numbers.",
                                       .positional = 1},
                                      {.name = "n",
                                       .type = MR_OPT_INT,
                                       .offset = offsetof(named_t, n),
                                       .def = "24",
                                       .lo = 1,
                                       .hi = 1e6,
                                       .help = "Records."},
                                      {.name = "classes",
                                       .type = MR_OPT_INT,
                                       .offset = offsetof(named_t, classes),
                                       .def = "3",
                                       .lo = 1,
                                       .hi = NAMES_MAX,
                                       .help = "Classes without names."},
                                      {.name = "first",
                                       .type = MR_OPT_INT,
                                       .offset = offsetof(named_t, first),
                                       .def = "0",
                                       .lo = 0,
                                       .hi = 1e6,
                                       .help = "Id of the first record."},
                                      {0}};

static mr_err_t named_plan(mr_stage_t *s) {
  named_t *t = s->state;
  int n = 0;
  for (const char *at = t->names; *at; n++) {
    size_t len = strcspn(at, ",");
    snprintf(t->text[n], NAME, "%.*s", (int)len, at);
    t->name[n] = t->text[n];
    at += len + (at[len] == ',');
  }
  t->list = (mr_classes_t){n, t->name};
  t->dataset = (mr_dataset_t){"named", n, t->name};
  s->out_spec[0] = (mr_spec_t){.flow = MR_FLOW_RECORDS,
                               .n_fields = 2,
                               .field = {{.name = "x", .dtype = MR_F32, .ndim = 1, .dim = {4}},
                                         mr_field_of_label(n ? n : (int)t->classes)},
                               .n_records = t->n,
                               .n_epochs = 1,
                               .dataset = &t->dataset};
  if (n) s->out_spec[0].field[1].classes = &t->list;
  s->writes = 3;
  return MR_OK;
}

static mr_err_t named_fetch(mr_stage_t *s, int worker, const int64_t *index, int n, mr_rec_t *out) {
  const named_t *t = s->state;
  int64_t classes = t->list.n ? t->list.n : t->classes;
  for (int i = 0; i < n; i++) {
    int64_t c = index[i] % classes;
    const char *name = t->list.n ? t->name[c] : "ant";
    float *x = out[i].field[0].data;
    for (int k = 0; k < 4; k++) x[k] = (name[0] - 'a') == k ? 1.0f : 0.0f;
    *(int32_t *)out[i].field[1].data = (int32_t)c;
    out[i].key = (uint64_t)(index[i] + t->first);
  }
  return MR_OK;
}

static const mr_stage_def_t named_def = {.name = "named",
                                         .help = "Records of named classes.",
                                         .out = {{.name = "out", .flow = MR_FLOW_RECORDS}},
                                         .opts = named_opts,
                                         .state_sz = sizeof(named_t),
                                         .plan = named_plan,
                                         .source = &(const mr_source_def_t){.fetch = named_fetch}};

/* ---- what came out ---- */

enum { RECORDS = 256 };
static struct {
  int n;
  int32_t label[RECORDS];
  uint64_t key[RECORDS];
  char classes[200], origin[200]; /* the field's names, and the data set's */
  double accuracy;                /* of the last evaluation; -1: none */
  uint64_t confused[NAMES_MAX][NAMES_MAX];
} got;

static mr_err_t take_step(mr_stage_t *s) {
  mr_buf_t *b;
  mr_err_t e = mr_pull(s, 0, &b);
  if (e != MR_OK) return e;
  const mr_spec_t *spec = &s->in_spec[0];
  mr_classes_text(spec->field[1].classes, got.classes, sizeof got.classes);
  const mr_classes_t of_set = {spec->dataset->n_classes, spec->dataset->class_name};
  mr_classes_text(&of_set, got.origin, sizeof got.origin);
  for (int i = 0; i < b->n && got.n < RECORDS; i++) {
    got.label[got.n] = ((const int32_t *)b->field[1].data)[i];
    got.key[got.n++] = b->key[i];
  }
  mr_buf_unref(b);
  return MR_OK;
}

static mr_err_t judge_step(mr_stage_t *s) {
  mr_buf_t *b;
  mr_err_t e = mr_pull(s, 0, &b);
  if (e != MR_OK) return e;
  const mr_report_t *r = b->data;
  if (r->kind == MR_REPORT_VALID || r->kind == MR_REPORT_TEST) {
    const mr_classes_t of_set = {r->dataset->n_classes, r->dataset->class_name};
    got.accuracy = mr_report_get(r, MR_METRIC_OWN(ACCURACY), -1);
    mr_classes_text(&of_set, got.classes, sizeof got.classes);
    memset(got.confused, 0, sizeof got.confused);
    for (size_t i = 0; i < r->n_confused; i++)
      got.confused[r->confused[i].truth][r->confused[i].guess] += r->confused[i].count;
  }
  mr_buf_unref(b);
  return MR_OK;
}

static const mr_stage_def_t take_def = {.name = "take",
                                        .help = "Keeps labels.",
                                        .in = {{.name = "in", .flow = MR_FLOW_BATCHES}},
                                        .step = &(const mr_step_def_t){.run = take_step}},
                            judge_def = {.name = "judge",
                                         .help = "Keeps evaluations.",
                                         .in = {{.name = "in", .flow = MR_FLOW_METRICS}},
                                         .step = &(const mr_step_def_t){.run = judge_step}};

static mr_err_t halve_plan(mr_stage_t *s) {
  s->out_spec[0] = s->in_spec[0];
  s->out_spec[0].field[1].n_classes = 2;
  s->writes = 2;
  return MR_OK;
}

static mr_err_t halve_map(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) {
  *(int32_t *)out->field[1].data = *(const int32_t *)in->field[1].data / 2;
  return MR_OK;
}

static const mr_stage_def_t halve_def = {.name = "halve",
                                         .help = "Makes classes of pairs of classes.",
                                         .in = {{.name = "in", .flow = MR_FLOW_RECORDS}},
                                         .out = {{.name = "out", .flow = MR_FLOW_RECORDS}},
                                         .plan = halve_plan,
                                         .map = &(const mr_map_def_t){.run = halve_map}};

static const mr_stage_def_t *const own[] = {&named_def, &halve_def, &take_def, &judge_def, NULL};
static mr_registry_t reg;
static char dir[] = "/tmp/mr-classes-XXXXXX", notice[2048];

static void hear(void *ctx, const char *text) {
  size_t n = strlen(notice);
  snprintf(notice + n, sizeof notice - n, "%s\n", text);
}

/* Runs a graph in which DIR is the test's folder. */
static mr_err_t try_graph(mr_diag_t *diag, const char *text) {
  char whole[2048] = "";
  for (const char *at = text; *at;) {
    const char *next = strstr(at, "DIR");
    size_t n = strlen(whole);
    snprintf(whole + n, sizeof whole - n, "%.*s%s", (int)(next ? next - at : (int)strlen(at)), at,
             next ? dir : "");
    at = next ? next + 3 : at + strlen(at);
  }
  if (!reg.n) {
    mr_registry_add(&reg, mr_loaders_stages), mr_registry_add(&reg, mr_stages_stages);
    mr_registry_add(&reg, mr_sinks_stages);
    mr_registry_add(&reg, own);
  }
  memset(&got, 0, sizeof got);
  got.accuracy = -1, notice[0] = 0, *diag = (mr_diag_t){0};
  mr_graph_t *g = mr_graph_create(&reg);
  mr_err_t e = mr_graph_parse(g, whole, NULL, 0, diag);
  if (e >= 0) e = mr_graph_run(g, diag);
  mr_graph_destroy(g);
  return e;
}

static void run_text(const char *text) {
  mr_diag_t diag;
  if (try_graph(&diag, text) < 0) fail_msg("%s\n%s", text, diag.text);
}

/* The graph is refused, and the sentence has each piece. */
static void refused(const char *text, const char *const *piece) {
  mr_diag_t diag;
  if (try_graph(&diag, text) >= 0) fail_msg("accepted: %s", text);
  for (; *piece; piece++)
    if (!strstr(diag.text, *piece)) fail_msg("want '%s' in '%s'", *piece, diag.text);
  assert_null(strchr(diag.text, '\n'));
}

/* ---- streams that meet ---- */

static int class_in(const char *list, const char *name) {
  int i = 0;
  for (const char *at = list; *at; i++) {
    size_t n = strcspn(at, ",");
    if (n == strlen(name) && !strncmp(at, name, n)) return i;
    at += n + strspn(at + n, ", ");
  }
  return -1;
}

/* Checks each record's label against its name: ids below 100 are of list a, others of list b. */
static void labels_are_by_name(const char *const a[3], const char *const b[3], const char *all) {
  assert_true(got.n > 0);
  for (int i = 0; i < got.n; i++) {
    const char *name = got.key[i] < 100 ? a[got.key[i] % 3] : b[(got.key[i] - 100) % 3];
    if (got.label[i] != class_in(all, name))
      fail_msg("record %d, %s: label %d, want %d of %s", (int)got.key[i], name, got.label[i],
               class_in(all, name), all);
  }
}

static void joined_streams_have_one_number_for_each_name(void **state) {
  static const char *const a[] = {"ant", "bee", "cat"}, *const b[] = {"dog", "cat", "bee"};
  static const char *const graph[] = {
      "named ant,bee,cat ! concatenate name=j ! batch 10 ! take  named dog,cat,bee first=100 ! j.b",
      "named ant,bee,cat ! mix name=j ! shuffle seed=3 epochs=2 ! batch 10 ! take  "
      "named dog,cat,bee first=100 ! j.b",
      "named ant,bee,cat ! to-iter-dataset ! mix name=j weights=1,3 ! batch 10 ! take  "
      "named dog,cat,bee first=100 ! to-iter-dataset ! j.b",
      "named ant,bee,cat ! to-iter-dataset ! concatenate name=j ! batch 10 ! take  "
      "named dog,cat,bee first=100 ! to-iter-dataset ! j.b",
      "named ant,bee,cat ! interleave 2 name=j ! mp-prefetch 2 ! batch 10 ! take  "
      "named dog,cat,bee first=100 ! j.b",
      "named ant,bee,cat ! interleave 1 name=j ! window-shuffle 7 seed=1 ! batch 10 ! take  "
      "named dog,cat,bee first=100 ! j.b"};
  for (size_t i = 0; i < sizeof graph / sizeof *graph; i++) {
    run_text(graph[i]);
    assert_string_equal(got.classes, "ant, bee, cat, dog");
    assert_string_equal(got.origin, "ant, bee, cat, dog");
    labels_are_by_name(a, b, "ant,bee,cat,dog");
    int of_b = 0;
    for (int k = 0; k < got.n; k++) of_b += got.key[k] >= 100;
    assert_in_range(of_b, 1, got.n - 1);
  }
}

static void joins_of_joins_keep_names(void **state) {
  run_text(
      "named ant,bee,cat ! concatenate name=j ! concatenate name=k ! batch 10 ! take  "
      "named dog,cat,bee first=100 ! j.b  named owl,dog,ant n=3 first=102 ! k.b");
  assert_string_equal(got.classes, "ant, bee, cat, dog, owl");
  assert_int_equal(got.n, 51);
  static const int32_t last[] = {4, 3, 0};
  for (int i = 0; i < 3; i++) assert_int_equal(got.label[48 + i], last[i]);
}

static void a_filter_behind_a_join_knows_the_common_numbers(void **state) {
  run_text(
      "named ant,bee,cat ! concatenate name=j ! filter 3 ! batch 4 ! take  "
      "named dog,cat,bee first=100 ! j.b");
  assert_int_equal(got.n, 8);
  for (int i = 0; i < got.n; i++) assert_int_equal((got.key[i] - 100) % 3, 0);
  run_text(
      "named ant,bee,cat ! concatenate name=j ! batch 4 ! take  "
      "named dog,cat,bee first=100 ! filter 0 ! j.b"); /* before it, the source's own */
  assert_int_equal(got.n, 32);
  for (int i = 24; i < got.n; i++) assert_int_equal(got.label[i], 3);
}

static void equal_lists_stay_as_they_are(void **state) {
  run_text(
      "named ant,bee,cat ! concatenate name=j ! batch 10 ! take  "
      "named ant,bee,cat first=100 ! j.b");
  assert_string_equal(got.classes, "ant, bee, cat");
  for (int i = 0; i < got.n; i++)
    assert_int_equal(got.label[i], got.key[i] < 100 ? got.key[i] % 3 : (got.key[i] - 100) % 3);
  assert_string_equal(notice, "");
}

static void rows_and_names_that_occur_twice_are_refused_with_both_lists(void **state) {
  refused(
      "named ant,bee,cat ! one-hot ! concatenate name=j ! batch 10 ! null  "
      "named bee,cat,dog ! one-hot ! j.b",
      (const char *[]){"ant, bee, cat", "bee, cat, dog", "rows are not renumbered", NULL});
  refused("named ant,bee,ant ! mix name=j ! batch 10 ! null  named bee,cat,dog ! j.b",
          (const char *[]){"ant, bee, ant", "bee, cat, dog", "\"ant\" is in a list twice", NULL});
  refused("named ant,bee,cat ! zip name=j ! batch 10 ! null  named bee,cat,dog ! j.b",
          (const char *[]){"ant, bee, cat", "bee, cat, dog", "prefix=A,B", NULL});
}

static void numbers_without_names_are_kept_and_said(void **state) {
  run_text("named ant,bee,cat ! concatenate name=j ! batch 10 ! take  named n=6 first=100 ! j.b");
  for (int i = 24; i < got.n; i++) assert_int_equal(got.label[i], (got.key[i] - 100) % 3);
  assert_non_null(strstr(notice, "input b has no names"));
  assert_non_null(strstr(notice, "ant, bee, cat"));
  run_text("named ant,bee,cat ! concatenate name=j ! batch 10 ! take  named classes=5 ! j.b");
  assert_string_equal(got.classes, "no names"); /* it has numbers beyond the names */
}

static void slices_of_other_classes_are_not_gathered(void **state) {
  run_text(
      "named ant,bee,cat ! batch 8 host=0/2 ! gather name=g ! take  "
      "named ant,bee,cat ! batch 8 host=1/2 ! g.b");
  assert_string_equal(got.classes, "ant, bee, cat");
  refused(
      "named ant,bee,cat ! batch 8 host=0/2 ! gather name=g ! take  "
      "named bee,ant,cat ! batch 8 host=1/2 ! g.b",
      (const char *[]){"ant, bee, cat", "bee, ant, cat", "inputs a and b", NULL});
}

static void each_side_of_a_zip_keeps_its_names(void **state) {
  run_text(
      "named ant,bee,cat ! zip name=j prefix=l-,r- ! batch 10 ! take  "
      "named bee,cat,dog first=100 ! j.b");
  assert_string_equal(got.classes, "ant, bee, cat");
}

static void another_number_of_classes_has_other_names(void **state) {
  run_text("named ant,bee,cat,dog ! halve ! batch 8 ! take");
  assert_string_equal(got.classes, "no names");
  run_text("named ant,bee,cat ! one-hot classes=5 ! batch 8 ! take");
  assert_string_equal(got.classes, "no names");
  run_text("named ant,bee,cat ! one-hot ! batch 8 ! take");
  assert_string_equal(got.classes, "ant, bee, cat");
}

/* ---- training and held-back records ---- */

#define TRAIN(names)                                                           \
  "named " names                                                               \
  " n=48 ! shuffle seed=1 epochs=40 ! batch 16 ! train-step name=t model=mlp " \
  "hidden=8 lr=0.01 threads=1 ! judge  "

static void held_back_records_are_scored_by_name(void **state) {
  static const char *const valid[] = {"ant,bee,cat", "cat,ant,bee", "bee,cat", "cat"};
  for (size_t i = 0; i < sizeof valid / sizeof *valid; i++) {
    char text[512];
    int n = 1;
    for (const char *c = valid[i]; *c; c++) n += *c == ',';
    snprintf(text, sizeof text,
             TRAIN("ant,bee,cat") "named %s n=%d ! sequential epochs=0 ! batch 7 ! t.valid",
             valid[i], 4 * n);
    run_text(text);
    assert_float_equal(got.accuracy, 1, 0);
    assert_string_equal(got.classes, "ant, bee, cat");
    for (int t = 0; t < 3; t++)
      for (int g = 0; g < 3; g++)
        if (t != g) assert_int_equal(got.confused[t][g], 0);
    static const char *const name[] = {"ant", "bee", "cat"};
    for (int t = 0; t < 3; t++)
      assert_int_equal(got.confused[t][t] > 0, class_in(valid[i], name[t]) >= 0);
  }
}

/* The data set of a zip is that of its first input, whose classes are others. */
static void reports_name_the_classes_that_are_predicted(void **state) {
  run_text(
      "named dog,owl n=24 ! select label ! rename label:other ! zip name=z ! "
      "shuffle seed=1 epochs=60 ! batch 8 ! train-step name=t model=mlp hidden=8 lr=0.01 "
      "threads=1 ! judge  named ant,bee,cat n=24 ! z.b  "
      "named owl,dog n=12 ! select label ! rename label:other ! zip name=y ! batch 5 ! t.test  "
      "named cat,bee n=12 ! y.b");
  assert_string_equal(got.classes, "ant, bee, cat");
  assert_float_equal(got.accuracy, 1, 0);
  assert_int_equal(got.confused[1][1], 6);
  assert_int_equal(got.confused[2][2], 6);
}

static void a_class_that_training_lacks_is_refused_with_both_lists(void **state) {
  refused(TRAIN("ant,bee,cat") "named bee,cat,dog ! batch 4 ! t.valid",
          (const char *[]){"input valid has the 3 classes bee, cat, dog",
                           "input in the 3 classes ant, bee, cat", "\"dog\"", NULL});
  refused(TRAIN("ant,bee,cat") "named ant,bee ! batch 4 ! t.valid  named Ant,bee,cat ! batch 4 ! "
                               "t.test",
          (const char *[]){"input test has the 3 classes Ant, bee, cat", "\"Ant\"", NULL});
  refused(TRAIN("ant,bee,cat") "named bee,dog ! batch 4 ! t.valid.more",
          (const char *[]){"input valid.more has the 2 classes bee, dog", NULL});
}

static void a_checkpoint_is_evaluated_by_name(void **state) {
  run_text(TRAIN("ant,bee,cat") "t.state ! checkpoint dir=DIR/by-name");
  run_text("named cat,ant,bee ! batch 5 ! eval-step DIR/by-name/latest threads=1 ! judge");
  assert_float_equal(got.accuracy, 1, 0);
  assert_string_equal(got.classes, "ant, bee, cat");
  run_text("named cat,bee ! batch 5 ! eval-step DIR/by-name/latest threads=1 ! judge");
  assert_float_equal(got.accuracy, 1, 0);
  refused("named bee,cat,dog ! batch 5 ! eval-step DIR/by-name/latest threads=1 ! judge",
          (const char *[]){"input in has the 3 classes bee, cat, dog", "/by-name/latest",
                           "the 3 classes ant, bee, cat", "\"dog\"", NULL});
}

static void a_run_is_not_resumed_with_other_classes(void **state) {
  run_text(TRAIN("ant,bee,cat") "t.state ! checkpoint dir=DIR/resumed");
#define RESUMED(names)                                                         \
  "named " names                                                               \
  " n=48 ! shuffle seed=1 epochs=41 ! batch 16 ! train-step name=t model=mlp " \
  "hidden=8 lr=0.01 threads=1 resume=DIR/resumed/latest ! judge"
  refused(RESUMED("ant,bee,cat,dog"), (const char *[]){"trained on the 3 classes ant, bee, cat",
                                                       "the 4 classes ant, bee, cat, dog", NULL});
  refused(RESUMED("ant,bee,owl"), (const char *[]){"trained on the 3 classes ant, bee, cat",
                                                   "the 3 classes ant, bee, owl", NULL});
  refused(RESUMED("bee,ant,cat"), (const char *[]){"bee, ant, cat", "the same order", NULL});
}

/* Of a run that begins with the parameters of another, rate 0 leaves its head as it was read. */
#define FROM(names)                                                           \
  "named " names                                                              \
  " n=48 ! shuffle seed=1 epochs=1 ! batch 16 ! train-step name=t model=mlp " \
  "hidden=8 lr=0 threads=1 from=DIR/first/latest ! judge  named " names       \
  " n=24 ! batch 8 ! t.valid"

static void a_head_of_another_run_follows_the_names_of_its_classes(void **state) {
  run_text(TRAIN("ant,bee,cat") "t.state ! checkpoint dir=DIR/first");
  run_text(FROM("ant,bee,cat"));
  assert_null(strstr(notice, "its head"));
  assert_float_equal(got.accuracy, 1, 0);
  run_text(FROM("cat,ant,bee"));
  assert_non_null(strstr(notice, "its head follows the names of the classes: 3 of 3 are in both"));
  assert_null(strstr(notice, "drawn anew"));
  assert_float_equal(got.accuracy, 1, 0);
  run_text(FROM("bee,cat,dog"));
  assert_non_null(strstr(notice, "2 of 3 are in both, and the others are drawn anew"));
  assert_int_equal(got.confused[0][0] + got.confused[0][2], 8); /* no bee is a cat, */
  assert_int_equal(got.confused[1][1] + got.confused[1][2], 8); /* and no cat is a bee */
  run_text(FROM("dog,elk,fox"));
  assert_non_null(strstr(notice, "its head does not fit the classes here and is drawn anew"));
  run_text(FROM("dog,elk"));
  assert_non_null(strstr(notice, "its head does not fit the classes here and is drawn anew"));
  run_text(FROM("'' classes=3"));
  assert_non_null(strstr(notice,
                         "its head's classes are taken by number, as they have no names "
                         "here"));
  refused(FROM("ant,bee,bee"), (const char *[]){"from: ", "ant, bee, bee", "ant, bee, cat", NULL});
}

static void a_resume_without_the_names_is_said(void **state) {
  run_text(TRAIN("ant,bee,cat") "t.state ! checkpoint dir=DIR/unnamed");
  run_text(
      "named n=48 ! shuffle seed=1 epochs=41 ! batch 16 ! train-step name=t model=mlp "
      "hidden=8 lr=0.01 threads=1 resume=DIR/unnamed/latest ! judge");
  assert_non_null(strstr(notice, "the classes of field label have names in "));
  assert_non_null(strstr(notice, "ant, bee, cat: those of the records are taken by number"));
}

/* ---- what a checkpoint says of its inputs ---- */

static void write_checkpoint(const char *name, const char *inputs) {
  char path[128];
  static float x[4];
  const mr_st_tensor_t t = {.name = "params/x", .dtype = MR_F32, .ndim = 1, .dim = {4}, .data = x};
  const mr_st_meta_t meta = {"millrace.inputs", inputs};
  mr_diag_t diag = {0};
  snprintf(path, sizeof path, "%s/%s", dir, name);
  if (mr_safetensors_write(path, &t, 1, &meta, inputs != NULL, &diag) < 0)
    fail_msg("%s", diag.text);
}

static void a_checkpoint_says_how_its_inputs_were_prepared(void **state) {
  char path[128];
  mr_train_inputs_t in;
  mr_diag_t diag = {0};
  run_text(
      "synthetic n=32 ! normalize preset=cifar10 ! batch 16 ! train-step name=t model=mlp "
      "hidden=4 threads=1 ! judge  t.state ! checkpoint dir=DIR/prepared");
  snprintf(path, sizeof path, "%s/prepared/latest", dir);
  if (mr_train_inputs_read(path, &in, &diag) < 0) fail_msg("%s", diag.text);
  assert_int_equal(in.spec.n_fields, 2);
  int image = mr_spec_find(&in.spec, "image"), label = mr_spec_find(&in.spec, "label");
  assert_true(image >= 0 && label >= 0);
  const mr_field_t *f = &in.spec.field[image];
  assert_int_equal(f->ndim, 3);
  assert_int_equal(f->dim[0], 32);
  assert_int_equal(f->dim[2], 3);
  assert_int_equal(f->layout, MR_LAYOUT_HWC);
  assert_true(f->mean[0] > 0.48f && f->mean[0] < 0.50f && f->std[0] > 0.2f);
  assert_true(in.spec.field[label].label);
  assert_int_equal(in.spec.field[label].classes->n, 10);
  mr_train_inputs_fini(&in);
}

static void a_checkpoint_without_inputs_is_an_older_one(void **state) {
  char path[128];
  mr_train_inputs_t in;
  mr_diag_t diag = {0};
  write_checkpoint("older.safetensors", NULL);
  snprintf(path, sizeof path, "%s/older.safetensors", dir);
  assert_int_equal(mr_train_inputs_read(path, &in, &diag), MR_OK);
  assert_int_equal(in.spec.n_fields, 0);
  mr_train_inputs_fini(&in);
}

static void inputs_that_no_run_has_written_are_refused(void **state) {
  static const char *const bad[] = {
      "",
      "{",
      "[]",
      "{\"fields\":3}",
      "{\"fields\":[3]}",
      "{\"fields\":[{\"name\":\"x\"}]}",
      "{\"fields\":[{\"name\":\"x\",\"dtype\":\"f33\",\"shape\":[]}]}",
      "{\"fields\":[{\"name\":\"1x\",\"dtype\":\"f32\",\"shape\":[]}]}",
      "{\"fields\":[{\"name\":\"x\",\"dtype\":\"f32\",\"shape\":[-1]}]}",
      "{\"fields\":[{\"name\":\"x\",\"dtype\":\"f32\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}]"
      "}",
      "{\"fields\":[{\"name\":\"x\",\"dtype\":\"f32\",\"shape\":[2],\"layout\":\"WHC\"}]}",
      "{\"fields\":[{\"name\":\"x\",\"dtype\":\"f32\",\"shape\":[2],\"mean\":[1,2]}]}",
      "{\"fields\":[{\"name\":\"l\",\"dtype\":\"i32\",\"shape\":[],\"n_classes\":2,\"classes\":["
      "\"a\"]}]}",
      "{\"fields\":[{\"name\":\"l\",\"dtype\":\"i32\",\"shape\":[],\"n_classes\":1,\"classes\":[7]}"
      "]}",
      "{\"fields\":[{\"name\":\"l\",\"dtype\":\"i32\",\"shape\":[],\"n_classes\":1e300}]}",
      "{\"fields\":[{\"name\":\"l\",\"dtype\":\"i32\",\"shape\":[]},{\"name\":\"l\",\"dtype\":"
      "\"i32\",\"shape\":[]}]}"};
  char path[128];
  snprintf(path, sizeof path, "%s/bad.safetensors", dir);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    mr_train_inputs_t in;
    mr_diag_t diag = {0};
    write_checkpoint("bad.safetensors", bad[i]);
    if (mr_train_inputs_read(path, &in, &diag) != MR_ERR_DATA) fail_msg("accepted: %s", bad[i]);
    assert_non_null(strstr(diag.text, "bad.safetensors: metadata millrace.inputs"));
  }
}

static int setup(void **state) {
  mr_notice_to(hear, NULL);
  return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state) {
  mr_notice_to(NULL, NULL);
  char command[64];
  snprintf(command, sizeof command, "rm -rf '%s'", dir);
  return system(command);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(joined_streams_have_one_number_for_each_name),
      cmocka_unit_test(joins_of_joins_keep_names),
      cmocka_unit_test(a_filter_behind_a_join_knows_the_common_numbers),
      cmocka_unit_test(equal_lists_stay_as_they_are),
      cmocka_unit_test(rows_and_names_that_occur_twice_are_refused_with_both_lists),
      cmocka_unit_test(numbers_without_names_are_kept_and_said),
      cmocka_unit_test(slices_of_other_classes_are_not_gathered),
      cmocka_unit_test(each_side_of_a_zip_keeps_its_names),
      cmocka_unit_test(another_number_of_classes_has_other_names),
      cmocka_unit_test(held_back_records_are_scored_by_name),
      cmocka_unit_test(reports_name_the_classes_that_are_predicted),
      cmocka_unit_test(a_class_that_training_lacks_is_refused_with_both_lists),
      cmocka_unit_test(a_checkpoint_is_evaluated_by_name),
      cmocka_unit_test(a_run_is_not_resumed_with_other_classes),
      cmocka_unit_test(a_head_of_another_run_follows_the_names_of_its_classes),
      cmocka_unit_test(a_resume_without_the_names_is_said),
      cmocka_unit_test(a_checkpoint_says_how_its_inputs_were_prepared),
      cmocka_unit_test(a_checkpoint_without_inputs_is_an_older_one),
      cmocka_unit_test(inputs_that_no_run_has_written_are_refused),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
