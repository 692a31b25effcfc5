/* What train-step reports of its evaluations: a confusion matrix of any number of classes, and
   several inputs of held-back records, each under its own name and all of them again where a stop
   has interrupted one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/philox.h"
#include "base/xio.h"
#include "loaders/loaders.h"
#include "metrics/report.h"
#include "pipeline/graph/graph.h"
#include "pipeline/stage_map.h"
#include "pipeline/stage_source.h"
#include "pipeline/stage_step.h"
#include "sinks/sinks.h"
#include "stages/stages.h"
#include "stages/train/state.h"

/* ---- records of many classes ---- */

typedef struct classy {
  int64_t n, classes;
} classy_t;

static const mr_opt_t classy_opts[] = {{.name = "n",
                                        .type = MR_OPT_INT,
                                        .offset = offsetof(classy_t, n),
                                        .def = "20",
                                        .lo = 1,
                                        .hi = 1e6,
                                        .help = "Records."},
                                       {.name = "classes",
                                        .type = MR_OPT_INT,
                                        .offset = offsetof(classy_t, classes),
                                        .def = "17",
                                        .lo = 1,
                                        .hi = 1e6,
                                        .help = "Classes."},
                                       {0}};

static mr_err_t classy_plan(mr_stage_t *s) {
  const classy_t *c = s->state;
  s->out_spec[0] = (mr_spec_t){.flow = MR_FLOW_RECORDS,
                               .n_fields = 2,
                               .field = {{.name = "x", .dtype = MR_F32, .ndim = 1, .dim = {4}},
                                         mr_field_of_label((int)c->classes)},
                               .n_records = c->n,
                               .n_epochs = 1};
  s->writes = 3;
  return MR_OK;
}

static mr_err_t classy_fetch(mr_stage_t *s, int worker, const int64_t *index, int n,
                             mr_rec_t *out) {
  const classy_t *c = s->state;
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < 4; k++) ((float *)out[i].field[0].data)[k] = (float)(index[i] % (k + 3));
    *(int32_t *)out[i].field[1].data = (int32_t)(index[i] % c->classes);
    out[i].key = (uint64_t)index[i];
  }
  return MR_OK;
}

static const mr_stage_def_t classy_def = {
    .name = "classy",
    .help = "Records of many classes.",
    .out = {{.name = "out", .flow = MR_FLOW_RECORDS}},
    .opts = classy_opts,
    .state_sz = sizeof(classy_t),
    .plan = classy_plan,
    .source = &(const mr_source_def_t){.fetch = classy_fetch}};

/* ---- values that differ from epoch to epoch ---- */

static mr_err_t jitter_plan(mr_stage_t *s) {
  s->out_spec[0] = s->in_spec[0];
  s->writes = 1;
  return MR_OK;
}

static mr_err_t jitter_map(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) {
  const float *x = in->field[0].data;
  float *to = out->field[0].data;
  for (int k = 0; k < 4; k++) to[k] = x[k] + (float)(mr_philox_next64(in->rng) >> 60);
  return MR_OK;
}

static const mr_stage_def_t jitter_def = {.name = "jitter",
                                          .help = "Adds draws of the record's generator.",
                                          .in = {{.name = "in", .flow = MR_FLOW_RECORDS}},
                                          .out = {{.name = "out", .flow = MR_FLOW_RECORDS}},
                                          .plan = jitter_plan,
                                          .map = &(const mr_map_def_t){.run = jitter_map}};

/* ---- the reports of evaluations ---- */

enum { KEPT = 16 };
static struct {
  mr_report_t report[KEPT];
  int n;
  int mistakes[KEPT]; /* pictures that came before report i of the same input */
  int strays;         /* pictures of another input than the next report's */
  const char *of[256];
  int n_of;
} kept;

/* An evaluation's report closes the pictures that have come since the one before. */
static void keep_numbers(const mr_report_t *r) {
  for (int i = 0; i < kept.n_of; i++) {
    bool same = !strcmp(kept.of[i], mr_report_split(r));
    kept.mistakes[kept.n] += same, kept.strays += !same;
  }
  kept.n_of = 0;
  mr_report_copy(&kept.report[kept.n++], r);
}

static mr_err_t keep_step(mr_stage_t *s) {
  mr_buf_t *b;
  mr_err_t e = mr_pull(s, 0, &b);
  if (e != MR_OK) return e;
  const mr_report_t *r = b->data;
  if ((r->kind == MR_REPORT_VALID || r->kind == MR_REPORT_TEST) && kept.n < KEPT) keep_numbers(r);
  if (r->kind == MR_REPORT_WRONG && kept.n_of < 256) kept.of[kept.n_of++] = mr_report_split(r);
  mr_buf_unref(b);
  return MR_OK;
}

static const mr_stage_def_t keep_def = {.name = "keep",
                                        .help = "Keeps reports of evaluations.",
                                        .in = {{.name = "in", .flow = MR_FLOW_METRICS}},
                                        .step = &(const mr_step_def_t){.run = keep_step}};

static mr_graph_t *graph; /* whose names the kept reports refer to */

/* ---- a stop while the second input of the second validation is read ---- */

static struct {
  pthread_mutex_t lock;
  pthread_cond_t asked;
  int valid;    /* reports of the input "valid" to come until the stop; 0: no stop */
  bool stopped; /* asked to */
} stop = {.lock = PTHREAD_MUTEX_INITIALIZER, .asked = PTHREAD_COND_INITIALIZER};

/* Asks the run to stop at a report of the input "valid". */
static mr_err_t stopper_step(mr_stage_t *s) {
  mr_buf_t *b;
  mr_err_t e = mr_pull(s, 0, &b);
  if (e != MR_OK) return e;
  pthread_mutex_lock(&stop.lock);
  if (stop.valid && !strcmp(mr_report_kind_text(b->data), "valid") && !--stop.valid) {
    mr_graph_stop(graph);
    stop.stopped = true;
    pthread_cond_broadcast(&stop.asked);
  }
  pthread_mutex_unlock(&stop.lock);
  mr_buf_unref(b);
  return MR_OK;
}

static const mr_stage_def_t stopper_def = {.name = "stopper",
                                           .help = "Stops the run.",
                                           .in = {{.name = "in", .flow = MR_FLOW_METRICS}},
                                           .step = &(const mr_step_def_t){.run = stopper_step}};

static mr_err_t gate_plan(mr_stage_t *s) { return s->out_spec[0] = s->in_spec[0], MR_OK; }

/* Holds the batches of the second epoch until the run has been asked to stop, if it will be. */
static mr_err_t gate_step(mr_stage_t *s) {
  mr_buf_t *b;
  mr_err_t e = mr_pull(s, 0, &b);
  if (e != MR_OK) return e;
  pthread_mutex_lock(&stop.lock);
  while (b->epoch == 1 && stop.valid && !stop.stopped) pthread_cond_wait(&stop.asked, &stop.lock);
  pthread_mutex_unlock(&stop.lock);
  return mr_push(s, 0, b);
}

static const mr_stage_def_t gate_def = {.name = "gate",
                                        .help = "Holds batches back.",
                                        .in = {{.name = "in", .flow = MR_FLOW_BATCHES}},
                                        .out = {{.name = "out", .flow = MR_FLOW_BATCHES}},
                                        .plan = gate_plan,
                                        .step = &(const mr_step_def_t){.run = gate_step}};

/* ---- running ---- */

static const mr_stage_def_t *const own[] = {&classy_def,  &jitter_def, &keep_def,
                                            &stopper_def, &gate_def,   NULL};
static mr_registry_t reg;

static mr_err_t parse_graph(const char *text, mr_diag_t *diag) {
  *diag = (mr_diag_t){0};
  if (!reg.n) {
    mr_registry_add(&reg, mr_loaders_stages), mr_registry_add(&reg, mr_stages_stages);
    mr_registry_add(&reg, mr_sinks_stages);
    mr_registry_add(&reg, own);
  }
  mr_graph_destroy(graph);
  graph = mr_graph_create(&reg);
  return mr_graph_parse(graph, text, NULL, 0, diag);
}

static mr_err_t run_graph(const char *text, mr_diag_t *diag) {
  mr_err_t e = parse_graph(text, diag);
  return e < 0 ? e : mr_graph_run(graph, diag);
}

static int forget(void **state) {
  for (int i = 0; i < kept.n; i++) mr_report_fini(&kept.report[i]);
  memset(&kept, 0, sizeof kept);
  mr_graph_destroy(graph);
  graph = NULL;
  return 0;
}

#define HEAD "train-step name=t model=mlp hidden=4 threads=1 ! keep  "

static void the_matrix_of(const char *classes, int64_t want) {
  char text[512];
  mr_diag_t diag;
  snprintf(text, sizeof text,
           "classy name=a n=32 classes=%s ! batch 16 ! " HEAD
           "classy name=b n=48 classes=%s ! batch 16 ! t.valid",
           classes, classes);
  if (run_graph(text, &diag) < 0) fail_msg("%s", diag.text);
  assert_int_equal(kept.n, 1);
  const mr_report_t *r = &kept.report[0];
  assert_int_equal(r->n_classes, want);
  uint64_t records = 0;
  for (size_t i = 0; i < r->n_confused; i++) {
    const mr_confused_t *c = &r->confused[i];
    assert_in_range(c->truth, 0, want - 1);
    assert_in_range(c->guess, 0, want - 1);
    if (i) assert_true(c[-1].truth < c->truth || c[-1].guess < c->guess); /* in order, once */
    records += c->count;
  }
  assert_int_equal(records, 48);
}

static void seventeen_classes_have_a_confusion_matrix(void **state) { the_matrix_of("17", 17); }
static void a_thousand_classes_have_a_confusion_matrix(void **state) {
  the_matrix_of("1000", 1000);
}

static void each_input_of_held_back_records_is_reported_under_its_name(void **state) {
  static const struct {
    const char *name;
    double records;
  } want[] = {{"valid", 16}, {"valid.cats", 32}, {"valid.dogs", 48}, {"test", 16}};
  mr_diag_t diag;
  mr_err_t e = run_graph("classy name=a n=32 ! batch 16 ! " HEAD
                         "classy name=d n=48 ! batch 16 ! t.valid.dogs  "
                         "classy name=b n=16 ! batch 16 ! t.valid  "
                         "classy name=e n=16 ! batch 16 ! t.test  "
                         "classy name=c n=32 ! batch 16 ! t.valid.cats",
                         &diag);
  if (e < 0) fail_msg("%s", diag.text);
  assert_int_equal(kept.n, 4);
  for (int i = 0; i < 4; i++) {
    const mr_report_t *r = NULL;
    for (int k = 0; k < kept.n; k++)
      if (!strcmp(mr_report_split(&kept.report[k]), want[i].name)) r = &kept.report[k];
    if (!r) fail_msg("no report of %s", want[i].name);
    assert_float_equal(mr_report_get(r, MR_METRIC_OWN(RECORDS), 0), want[i].records, 0);
    assert_true(mr_report_has(r, MR_METRIC_OWN(LOSS), NULL));
    assert_true(mr_report_has(r, MR_METRIC_OWN(ACCURACY), NULL));
  }
}

/* Each picture names the input that it was found in, as does the matrix that counts it. */
static void pictures_of_mistakes_belong_to_their_input(void **state) {
  mr_diag_t diag;
  mr_err_t e = run_graph("synthetic name=a n=32 ! normalize ! batch 16 ! " HEAD
                         "synthetic name=b n=16 seed=2 ! normalize ! batch 16 ! t.valid  "
                         "synthetic name=d n=48 seed=3 ! normalize ! batch 16 ! t.valid.dogs  "
                         "synthetic name=e n=16 seed=4 ! normalize ! batch 16 ! t.test",
                         &diag);
  if (e < 0) fail_msg("%s", diag.text);
  assert_int_equal(kept.n, 3);
  assert_int_equal(kept.strays, 0);
  for (int i = 0; i < 3; i++) {
    const mr_report_t *r = &kept.report[i];
    uint32_t mistakes = 0;
    for (size_t k = 0; k < r->n_confused; k++)
      if (r->confused[k].truth != r->confused[k].guess) mistakes += r->confused[k].count;
    assert_in_range(kept.mistakes[i], 1, mistakes);
  }
}

static void a_name_twice_and_one_too_many_are_refused(void **state) {
  mr_diag_t diag;
  assert_true(run_graph("classy name=a ! batch 4 ! " HEAD
                        "classy name=b ! batch 4 ! t.valid.x  classy name=c ! batch 4 ! t.valid.x",
                        &diag) < 0);
  assert_non_null(strstr(diag.text, "t.valid.x has two connections"));
  assert_true(run_graph("classy name=a ! batch 4 ! " HEAD
                        "classy name=b ! batch 4 ! t.valid.a  classy name=c ! batch 4 ! t.valid.b  "
                        "classy name=d ! batch 4 ! t.valid.c  classy name=e ! batch 4 ! t.valid.d  "
                        "classy name=f ! batch 4 ! t.valid.e  classy name=g ! batch 4 ! t.valid.f",
                        &diag) < 0);
  assert_non_null(strstr(diag.text, "t.valid.f: t has at most 5 inputs valid.NAME"));
  assert_true(run_graph("classy name=a ! batch 4 ! " HEAD "classy name=b ! batch 4 ! t.vlaid.x",
                        &diag) < 0);
  assert_non_null(strstr(diag.text, "no input \"vlaid.x\""));
}

/* They are kinds of records in files, which are read back when a run resumes. */
static void names_that_a_file_of_records_could_not_hold_are_refused(void **state) {
  enum { LONGEST = 63 };
  static const char *const bad[] = {"a,b", "a\"b", "a\nb", "a b", "a.b", "\xc3\xa4", "a\\", "a{"};
  static const char two[] =
      "classy name=a n=32 ! batch 16 ! train-step name=t model=mlp hidden=4 "
      "threads=1 ! keep  classy name=b n=16 ! batch 16 name=held";
  mr_diag_t diag;
  char name[LONGEST + 2];
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    snprintf(name, sizeof name, "valid.%s", bad[i]);
    assert_int_equal(parse_graph(two, &diag), MR_OK);
    assert_int_equal(mr_graph_link(graph, "held", NULL, "t", name, &diag), MR_ERR_USAGE);
    assert_non_null(strstr(diag.text, "want valid.NAME with a NAME of [A-Za-z0-9_-]"));
    assert_null(strchr(diag.text, '\n'));
  }
  memset(name, 'n', sizeof name), memcpy(name, "valid.", 6), name[LONGEST + 1] = 0;
  assert_int_equal(parse_graph(two, &diag), MR_OK);
  assert_int_equal(mr_graph_link(graph, "held", NULL, "t", name, &diag), MR_ERR_USAGE);
  assert_non_null(strstr(diag.text, "64 characters; want at most 63"));
  name[LONGEST] = 0, diag = (mr_diag_t){0};
  if (mr_graph_link(graph, "held", NULL, "t", name, &diag) < 0) fail_msg("%s", diag.text);
  if (mr_graph_run(graph, &diag) < 0) fail_msg("%s", diag.text);
  assert_int_equal(kept.n, 1);
  assert_string_equal(mr_report_kind_text(&kept.report[0]), name);
  assert_true(run_graph("classy name=a ! batch 4 ! " HEAD "classy name=b ! batch 4 ! t.valid.a.b",
                        &diag) < 0);
  assert_non_null(strstr(diag.text, "t.valid.a.b: want valid.NAME"));
}

/* ---- a validation of two inputs that a stop interrupts ---- */

static char folder[64];

/* Three epochs of two steps; the records of the input "valid" differ from epoch to epoch. */
static void parse_run(const char *name) {
  char text[1024];
  mr_diag_t diag;
  snprintf(text, sizeof text,
           "classy name=a n=32 ! sequential name=order epochs=3 ! batch 16 ! train-step name=t "
           "model=mlp hidden=4 threads=1 ! stopper  t.metrics ! jsonl path=%s/%s.jsonl  "
           "t.metrics ! csv path=%s/%s.csv  t.state ! checkpoint dir=%s/%s keep=0  "
           "classy name=b n=48 ! shuffle seed=5 epochs=0 ! jitter ! batch 16 name=held "
           "! t.valid  classy name=d n=32 ! sequential name=again epochs=0 ! batch 16 name=dogs "
           "! gate ! t.valid.dogs",
           folder, name, folder, name, folder, name);
  if (parse_graph(text, &diag) < 0) fail_msg("%s", diag.text);
  /* no file of so few records loses one, however late its stage gets to run */
  assert_int_equal(mr_graph_set_depth(graph, 64, &diag), MR_OK);
}

static void run_parsed(void) {
  mr_diag_t diag = {0};
  if (mr_graph_run(graph, &diag) < 0) fail_msg("%s", diag.text);
}

static char *text_in(const char *name) {
  char path[128];
  void *bytes;
  size_t n;
  mr_diag_t diag = {0};
  snprintf(path, sizeof path, "%s/%s", folder, name);
  if (mr_read_file(path, 1 << 20, &bytes, &n, &diag) < 0) fail_msg("%s", diag.text);
  return bytes;
}

/* Kind, step and loss of each row of a validation in NAME.csv, and how many there are. */
static int validations_in(const char *name, char *rows, size_t size) {
  char file[32], kind[64], loss[32], *save = NULL;
  int n = 0, step;
  snprintf(file, sizeof file, "%s.csv", name);
  char *text = text_in(file);
  rows[0] = 0;
  for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
    if (sscanf(line, "%63[^,],%d,%*[^,],%*[^,],%*[^,],%31[^,]", kind, &step, loss) != 3) continue;
    if (!mr_report_kind_is_valid(kind)) continue;
    size_t at = strlen(rows);
    snprintf(rows + at, size - at, "%s %d %s\n", kind, step, loss);
    n++;
  }
  free(text);
  return n;
}

/* The same counts of the lines of NAME.jsonl. */
static int lines_of_validations(const char *name) {
  char file[32];
  int n = 0;
  snprintf(file, sizeof file, "%s.jsonl", name);
  char *text = text_in(file);
  for (const char *at = text; (at = strstr(at, "{\"kind\":\"valid")); at++) n++;
  free(text);
  return n;
}

static void read_progress(const char *name, mr_train_progress_t *at) {
  char path[128];
  mr_diag_t diag = {0};
  snprintf(path, sizeof path, "%s/%s/latest", folder, name);
  if (mr_train_state_progress(path, at, &diag) < 0) fail_msg("%s", diag.text);
}

static void resume_parsed(const char *name, const mr_train_progress_t *at) {
  char path[128], step[24];
  mr_diag_t diag = {0};
  snprintf(path, sizeof path, "%s/%s/latest", folder, name);
  snprintf(step, sizeof step, "%lld", (long long)at->step);
  mr_err_t e = mr_graph_set(graph, "t", "resume", path, &diag);
  for (int i = 0; i < 2 && e >= 0; i++) {
    const char *sink = i ? "csv" : "jsonl";
    e = mr_graph_set(graph, sink, "resume-step", step, &diag);
    if (e >= 0)
      e = mr_graph_set(graph, sink, "resume-valid", at->unvalidated ? "false" : "true", &diag);
  }
  for (int i = 0; i < MR_TRAIN_STREAMS && e >= 0; i++)
    e = mr_graph_resume(graph, mr_graph_before(graph, "t", i), &at->stream[i], &diag);
  if (e < 0) fail_msg("%s", diag.text);
}

static void a_validation_that_a_stop_interrupts_is_repeated_from_its_beginning(void **state) {
  mr_train_progress_t at;
  char whole[512], cut[512];
  strcpy(folder, "/tmp/mr-evaluations-XXXXXX");
  assert_non_null(mkdtemp(folder));
  parse_run("whole"), run_parsed();
  stop.valid = 2, stop.stopped = false;
  parse_run("cut"), run_parsed();
  stop.valid = 0;
  assert_true(stop.stopped);
  assert_int_equal(validations_in("cut", cut, sizeof cut), 3); /* of the second, one input */
  read_progress("cut", &at);
  assert_int_equal(at.step, 4);
  assert_true(at.unvalidated);
  parse_run("cut"), resume_parsed("cut", &at), run_parsed();
  assert_int_equal(validations_in("whole", whole, sizeof whole), 6);
  assert_int_equal(validations_in("cut", cut, sizeof cut), 6);
  assert_string_equal(cut, whole);
  assert_int_equal(lines_of_validations("cut"), 6);
  char command[96];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  assert_int_equal(system(command), 0);
}

static void a_dumped_graph_keeps_the_names(void **state) {
  char *text = NULL;
  size_t n;
  mr_diag_t diag;
  mr_err_t e = run_graph("classy name=a n=32 ! batch 16 ! " HEAD
                         "classy name=d n=48 ! batch 16 name=held ! t.valid.dogs",
                         &diag);
  if (e < 0) fail_msg("%s", diag.text);
  FILE *out = open_memstream(&text, &n);
  mr_graph_dump(graph, out);
  fclose(out);
  assert_non_null(strstr(text, "held.out ! t.valid.dogs\n"));
  if (run_graph(text, &diag) < 0) fail_msg("%s: %s", diag.text, text);
  free(text);
}

int main(void) {
#define CASE(f) cmocka_unit_test_teardown(f, forget)
  const struct CMUnitTest tests[] = {
      CASE(seventeen_classes_have_a_confusion_matrix),
      CASE(a_thousand_classes_have_a_confusion_matrix),
      CASE(each_input_of_held_back_records_is_reported_under_its_name),
      CASE(pictures_of_mistakes_belong_to_their_input),
      CASE(a_name_twice_and_one_too_many_are_refused),
      CASE(names_that_a_file_of_records_could_not_hold_are_refused),
      CASE(a_validation_that_a_stop_interrupts_is_repeated_from_its_beginning),
      CASE(a_dumped_graph_keeps_the_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
