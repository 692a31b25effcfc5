/* Reports through every sink that writes a file or a page: numbers of many and long names, numbers
   that are not finite, what stages report of themselves, and confusion matrices of many classes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>
#include <math.h>

#include "tests/sinks/talk.h"

/* ---- what the source of reports is declared to report ---- */

enum { MANY = 200, LONG = 300 };
static char many_name[MANY][LONG + 1];
static mr_metric_def_t many_def[MANY];
static const mr_metric_def_t *many_list[MANY];
static const mr_metric_list_t many = {.n = MANY, .def = many_list};

static void name_many(void) {
  for (int i = 0; i < MANY; i++) {
    memset(many_name[i], 'm', LONG);
    int n = snprintf(many_name[i], sizeof many_name[i], "score_%d_", i);
    if (i % 50 == 0) many_name[i][n] = 'x'; /* every fiftieth has LONG letters */
    many_def[i] = (mr_metric_def_t){.name = many_name[i], .unit = "", .help = "A score."};
    many_list[i] = &many_def[i];
  }
}

static void add_many(mr_report_t *r) {
  for (int i = 0; i < MANY; i++) mr_report_add(r, &many_def[i], i + 0.5);
}

static const double not_finite[] = {NAN, -NAN, INFINITY, -INFINITY};
static void add_not_finite(mr_report_t *r) {
  for (int i = 0; i < 4; i++) mr_report_add(r, &many_def[i], not_finite[i]);
}

/* ---- stages that report ---- */

typedef struct reporting {
  bool late;
} reporting_t;

static const mr_metric_def_t reported[] = {
    {.name = "kept", .help = "Reports it has passed on.", .role = MR_METRIC_STAGE, .total = true},
    {.name = "share", .unit = "", .help = "A share.", .role = MR_METRIC_STAGE},
    {0}};

static mr_err_t reporting_plan(mr_stage_t *s) {
  s->out_spec[0] = mr_spec_of_bytes(MR_FLOW_BYTES, 8);
  return MR_OK;
}

static mr_err_t reporting_step(mr_stage_t *s) {
  mr_metric_count(s, 0, 2);
  mr_metric_count(s, 0, 1);
  mr_metric_report(s, 1, s->name[0] == 'a' ? 0.25 : (double)NAN);
  return MR_END;
}

static const mr_stage_def_t reporting_def = {.name = "reporting",
                                             .help = "Reports two numbers of itself.",
                                             .out = {{.name = "out", .flow = MR_FLOW_BYTES}},
                                             .metrics = reported,
                                             .state_sz = sizeof(reporting_t),
                                             .plan = reporting_plan,
                                             .step = &(const mr_step_def_t){.run = reporting_step}};

/* Reports what the stages of its graph report, once they have ended. */
static mr_err_t gathers_step(mr_stage_t *s) {
  mr_buf_t *b;
  for (int port = 0; port < 2; port++)
    if (mr_pull(s, port, &b) == MR_OK) return mr_stage_fail(s, MR_ERR_DATA, "want nothing");
  mr_err_t e = mr_fresh(s, 0, &b);
  if (e != MR_OK) return e;
  mr_report_t *r = b->data;
  mr_report_begin(r, MR_REPORT_STEP);
  r->step = 1;
  mr_report_add(r, MR_METRIC_OWN(LOSS), 1);
  mr_report_add_stages(r, s);
  b->size = sizeof *r;
  e = mr_push(s, 0, b);
  return e < 0 ? e : MR_END;
}

static mr_err_t gathers_plan(mr_stage_t *s) {
  s->out_spec[0] = mr_report_spec(NULL, NULL);
  return MR_OK;
}

static const mr_stage_def_t gathers_def = {
    .name = "gathers",
    .help = "Gives one report of what stages report.",
    .in = {{.name = "one", .flow = MR_FLOW_BYTES}, {.name = "two", .flow = MR_FLOW_BYTES}},
    .out = {{.name = "metrics", .flow = MR_FLOW_METRICS}},
    .plan = gathers_plan,
    .step = &(const mr_step_def_t){.run = gathers_step}};

static const mr_stage_def_t *const own[] = {&talk_def, &reporting_def, &gathers_def, NULL};

static int setup(void **state) {
  talk_depth = 512;
  name_many();
  return talk_setup(own);
}
static int teardown(void **state) {
  talk_before = NULL, talk_metrics = &talk_usual;
  return talk_teardown();
}

static void run_well(const char *format) {
  char text[512];
  mr_diag_t diag;
  snprintf(text, sizeof text, format, dir, dir, dir);
  if (run(text, &diag) < 0) fail_msg("%s: %s", text, diag.text);
}

/* Record i of a file of lines, parsed; the caller deletes it. */
static cJSON *record_of(const char *lines, int i) {
  while (i--) lines = strchr(lines, '\n') + 1;
  cJSON *j = cJSON_ParseWithOpts(lines, NULL, false);
  assert_non_null(j);
  return j;
}

static double number_in(const cJSON *j, const char *name) {
  const cJSON *v = cJSON_GetObjectItemCaseSensitive(j, name);
  if (!v) fail_msg("no %s", name);
  return cJSON_IsNumber(v) ? v->valuedouble : NAN;
}

/* ---- the tests ---- */

static void two_hundred_metrics_of_long_names_are_in_every_file(void **state) {
  talk_metrics = &many, talk_before = add_many;
  run_well("talk last=2 ! jsonl path=%s/m.jsonl  talk.metrics ! csv path=%s/m.csv");
  char *lines = read_text("m.jsonl"), *table = read_text("m.csv");
  cJSON *j = record_of(lines, 1);
  for (int i = 0; i < MANY; i++) {
    char column[LONG + 16];
    assert_float_equal(number_in(j, many_name[i]), i + 0.5, 0);
    snprintf(column, sizeof column, ",%.*s,", LONG, many_name[i]);
    assert_non_null(strstr(table, column));
  }
  assert_int_equal(strlen(many_name[50]), LONG);
  const char *row = strchr(table, '\n') + 1;
  assert_non_null(strstr(row, ",0.5,1.5,2.5,"));
  assert_non_null(strstr(row, ",198.5,199.5,"));
  cJSON_Delete(j);
  free(lines), free(table);
}

static void numbers_that_are_not_finite_keep_the_files_readable(void **state) {
  talk_metrics = &many, talk_before = add_not_finite;
  run_well("talk last=1 ! jsonl path=%s/n.jsonl  talk.metrics ! csv path=%s/n.csv");
  char *lines = read_text("n.jsonl"), *table = read_text("n.csv");
  cJSON *j = record_of(lines, 0);
  for (int i = 0; i < 4; i++)
    assert_true(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(j, many_name[i])));
  assert_non_null(strstr(table, ",nan,nan,inf,-inf,"));
  assert_null(strstr(table, "-nan"));
  cJSON_Delete(j);
  free(lines), free(table);
}

static void a_number_without_a_column_is_named(void **state) {
  char text[192];
  talk_metrics = NULL, talk_before = NULL;
  snprintf(text, sizeof text, "talk last=3 ! csv path=%s/u", dir);
  char *said = run_complains(text);
  assert_non_null(strstr(said, "no column for accuracy"));
  assert_null(strstr(strstr(said, "no column") + 1, "no column")); /* once */
  free(said);
}

static void a_list_with_a_reserved_name_is_refused_when_the_graph_is_settled(void **state) {
  static const mr_metric_def_t epoch = {.name = "epoch"};
  static const mr_metric_def_t *const one[] = {&epoch};
  static const mr_metric_list_t list = {.n = 1, .def = one};
  mr_diag_t diag;
  talk_metrics = &list;
  assert_int_equal(run("talk ! progress", &diag), MR_ERR_CONFIG);
  assert_non_null(strstr(diag.text,
                         "talk: it reports a metric \"epoch\", which is reserved; "
                         "\"model_epoch\" is allowed"));
}

/* "reads", a total, is millrace_reads_total for Prometheus. */
static void a_name_that_is_anothers_counter_is_refused(void **state) {
  static const char *const name[] = {"reads_total", "reads_total_total"};
  static mr_metric_def_t counter = {.name = "reads", .total = true, .role = MR_METRIC_MACHINE};
  static mr_metric_def_t other = {.role = MR_METRIC_STEP};
  static const mr_metric_def_t *const two[] = {&counter, &other};
  static const mr_metric_list_t list = {.n = 2, .def = two};
  mr_diag_t diag;
  talk_metrics = &list, talk_before = NULL;
  for (int i = 0; i < 2; i++) {
    other.name = name[i];
    assert_int_equal(run("talk ! null", &diag), MR_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "which is reserved; \"reads\" is allowed"));
    assert_non_null(strstr(diag.text, "*_total"));
  }
}

static void a_list_with_a_name_twice_or_a_role_of_another_place_is_refused(void **state) {
  static mr_metric_def_t a = {.name = "score"}, b = {.name = "bias"};
  static const mr_metric_def_t *const two[] = {&a, &b}, *const hole[] = {&a, NULL},
                                      *const own_twice[] = {MR_METRIC_OWN(LR), MR_METRIC_OWN(LR)};
  static mr_metric_list_t list = {.n = 2, .def = two};
  static const int roles[] = {MR_METRIC_STAGE, MR_METRIC_STAGE + 1, 1000000, -1};
  mr_diag_t diag;
  talk_metrics = &list, talk_before = NULL;
  for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
    b.role = (mr_metric_role_t)roles[i];
    assert_int_equal(run("talk ! null", &diag), MR_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "talk: its metric \"bias\" has role"));
    assert_non_null(strstr(diag.text, "want MR_METRIC_JUDGED"));
  }
  b.name = "epoch"; /* whose name is reserved for a role that has none of its own too */
  assert_int_equal(run("talk ! null", &diag), MR_ERR_CONFIG);
  assert_non_null(strstr(diag.text, "reserved"));
  b = (mr_metric_def_t){.name = "accuracy", .role = MR_METRIC_STEP};
  assert_int_equal(run("talk ! null", &diag), MR_ERR_CONFIG);
  assert_non_null(strstr(diag.text, "reserved"));
  for (int role = MR_METRIC_JUDGED; role <= MR_METRIC_MACHINE; role++) {
    b = (mr_metric_def_t){.name = "score", .role = (mr_metric_role_t)role};
    assert_int_equal(run("talk ! null", &diag), MR_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "talk: it reports the metric \"score\" twice"));
    b.name = "bias";
    if (run("talk ! null", &diag) < 0) fail_msg("%s", diag.text);
  }
  list.def = own_twice;
  assert_int_equal(run("talk ! null", &diag), MR_ERR_CONFIG);
  assert_non_null(strstr(diag.text, "\"lr\" twice"));
  list.def = hole;
  assert_int_equal(run("talk ! null", &diag), MR_ERR_CONFIG);
  assert_non_null(strstr(diag.text, "a metric without a name"));
}

static void stages_report_numbers_of_their_own_under_one_name_too(void **state) {
  run_well(
      "reporting name=a ! gathers name=g ! jsonl path=%s/s.jsonl  reporting name=b ! g.two  "
      "g.metrics ! csv path=%s/s.csv");
  char *lines = read_text("s.jsonl"), *table = read_text("s.csv");
  cJSON *j = record_of(lines, 0), *stages = cJSON_GetObjectItem(j, "stages");
  const cJSON *a = cJSON_GetObjectItem(stages, "a"), *b = cJSON_GetObjectItem(stages, "b");
  assert_float_equal(number_in(a, "kept"), 3, 0);
  assert_float_equal(number_in(a, "share"), 0.25, 0);
  assert_float_equal(number_in(b, "kept"), 3, 0);
  assert_true(isnan(number_in(b, "share")));
  assert_non_null(strstr(table, ",a.kept,a.share,b.kept,b.share\n"));
  assert_non_null(strstr(table, ",3,0.25,3,nan\n"));
  cJSON_Delete(j);
  free(lines), free(table);
}

static void a_stage_that_declares_a_reserved_name_or_one_twice_is_refused(void **state) {
  static const char *const bad[] = {"busy", "queue", "items",      "committed",
                                    "a,b",  "Kept",  "read_total", ""};
  mr_metric_def_t metrics[3] = {{.role = MR_METRIC_STAGE}, {0}};
  mr_stage_def_t def = reporting_def;
  mr_diag_t diag;
  def.metrics = metrics;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    metrics[0].name = bad[i], diag = (mr_diag_t){0};
    assert_int_equal(mr_stage_def_check(&def, &diag), MR_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "stage \"reporting\": it reports a metric"));
    assert_non_null(strstr(diag.text, "is allowed"));
  }
  metrics[0].name = "loss", diag = (mr_diag_t){0}; /* STAGE.loss is no other number's name */
  assert_int_equal(mr_stage_def_check(&def, &diag), MR_OK);
  metrics[1] = metrics[0];
  assert_int_equal(mr_stage_def_check(&def, &diag), MR_ERR_CONFIG);
  assert_non_null(strstr(diag.text, "twice"));
}

enum { CLASSES = 1000 };
static const char *class_name[CLASSES];
static const mr_dataset_t large = {"made", CLASSES, class_name};

static void confuse_many(mr_report_t *r) {
  mr_confused_t cell[] = {{999, 0, 7}, {3, 4, 12}, {3, 3, 1}};
  r->dataset = &large;
  if (r->kind == MR_REPORT_TEST) mr_report_confuse(r, CLASSES, cell, 3);
}

static void a_thousand_classes_have_a_confusion_matrix_in_every_file(void **state) {
  for (int i = 0; i < CLASSES; i++) class_name[i] = i == 4 ? "d\xff\"g" : "c";
  talk_before = confuse_many;
  run_well("talk last=1 ! jsonl path=%s/c.jsonl");
  char *lines = read_text("c.jsonl");
  cJSON *j = record_of(lines, 1), *rows = cJSON_GetObjectItem(j, "confusion");
  assert_int_equal(cJSON_GetArraySize(rows), CLASSES);
  assert_int_equal(cJSON_GetArrayItem(cJSON_GetArrayItem(rows, 3), 4)->valueint, 12);
  assert_int_equal(cJSON_GetArrayItem(cJSON_GetArrayItem(rows, 999), 0)->valueint, 7);
  assert_string_equal(cJSON_GetArrayItem(cJSON_GetObjectItem(j, "classes"), 4)->valuestring,
                      "d\xef\xbf\xbd\"g");
  cJSON_Delete(j);
  free(lines);
  char *said = run_said("talk last=1 ! progress");
  assert_non_null(strstr(said, "\n  c taken for d\\xff\"g: 12\n  c taken for c: 7\n"));
  const char *worst = strstr(said, "\nworst "), *mean = worst ? strstr(worst, "\nmean ") : NULL;
  int lines_of_classes = -1;
  assert_non_null(mean);
  /* of the four classes that have records or were taken for some */
  assert_non_null(strstr(mean, "mean               20    0.2500  0.0192  0.0357\n"));
  for (; worst && worst < mean; worst = strchr(worst + 1, '\n')) lines_of_classes++;
  assert_int_equal(lines_of_classes, 2); /* as many as have records, each once */
  free(said);
}

static void a_matrix_of_more_classes_is_written_as_its_cells(void **state) {
  mr_report_t r = {0};
  mr_report_begin(&r, MR_REPORT_TEST);
  mr_report_confuse(&r, 100000, (mr_confused_t[]){{99999, 5, 2}, {1, 1, 3}}, 2);
  char *text = mr_report_json(&r, MR_REPORT_DENSE);
  assert_non_null(strstr(text, "\"n_classes\":100000,\"confusion_cells\":[[1,1,3],[99999,5,2]]"));
  assert_null(strstr(text, "\"confusion\":"));
  free(text);
  mr_report_fini(&r);
}

static void a_copy_has_parts_of_its_own_and_an_empty_report_none(void **state) {
  mr_report_t a = {0}, b = {0};
  mr_report_begin(&a, MR_REPORT_VALID);
  a.input = "valid.dogs";
  for (int i = 0; i < 100; i++) mr_report_add(&a, MR_METRIC_OWN(LOSS), i);
  mr_report_add_picture(&a)->key = 77;
  mr_report_add_histogram(&a)->n = 5;
  mr_report_copy(&b, &a);
  mr_report_begin(&a, MR_REPORT_STEP);
  assert_int_equal(a.n_numbers + a.n_pictures + a.n_histograms, 0);
  assert_int_equal(b.n_numbers, 100);
  assert_float_equal(b.number[99].value, 99, 0);
  assert_int_equal(b.picture[0].key, 77);
  assert_int_equal(b.histogram[0].n, 5);
  assert_string_equal(mr_report_split(&b), "valid.dogs");
  assert_string_equal(mr_report_split(&a), "train");
  mr_report_fini(&a), mr_report_fini(&b);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {
      CASE(two_hundred_metrics_of_long_names_are_in_every_file),
      CASE(numbers_that_are_not_finite_keep_the_files_readable),
      CASE(a_number_without_a_column_is_named),
      CASE(a_list_with_a_reserved_name_is_refused_when_the_graph_is_settled),
      CASE(a_name_that_is_anothers_counter_is_refused),
      CASE(a_list_with_a_name_twice_or_a_role_of_another_place_is_refused),
      CASE(stages_report_numbers_of_their_own_under_one_name_too),
      CASE(a_stage_that_declares_a_reserved_name_or_one_twice_is_refused),
      CASE(a_thousand_classes_have_a_confusion_matrix_in_every_file),
      CASE(a_matrix_of_more_classes_is_written_as_its_cells),
      CASE(a_copy_has_parts_of_its_own_and_an_empty_report_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
