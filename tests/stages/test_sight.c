/* The pictures that train-step shows: of the fields that its model takes, wherever they are in a
   record and whatever else it holds. */
#include "loaders/loaders.h"
#include "metrics/report.h"
#include "pipeline/graph/graph.h"
#include "pipeline/stage_step.h"
#include "stages/stages.h"
#include "tests/vectors.h"

enum { SHOWN_MAX = 64 };

static struct {
  mr_picture_t picture[SHOWN_MAX];
  int n;
} shown;

static mr_err_t reporting_step(mr_stage_t *s) {
  mr_buf_t *b;
  mr_err_t e = mr_pull(s, 0, &b);
  if (e != MR_OK) return e;
  const mr_report_t *r = b->data;
  for (size_t i = 0; i < r->n_pictures && r->kind == MR_REPORT_SAMPLE && shown.n < SHOWN_MAX; i++)
    shown.picture[shown.n++] = r->picture[i];
  mr_buf_unref(b);
  return MR_OK;
}

static const mr_stage_def_t reported = {.name = "told",
                                        .help = "Keeps pictures.",
                                        .in = {{.name = "in", .flow = MR_FLOW_METRICS}},
                                        .step = &(const mr_step_def_t){.run = reporting_step}};
static const mr_stage_def_t *const own[] = {&reported, NULL};

/* One step over `records`, of whose batches the model takes image and label. */
static void run(const char *records) {
  mr_registry_t reg = {0};
  mr_diag_t d = {0};
  char text[1024];
  mr_registry_add(&reg, mr_loaders_stages);
  mr_registry_add(&reg, mr_stages_stages);
  mr_registry_add(&reg, own);
  mr_graph_t *g = mr_graph_create(&reg);
  snprintf(text, sizeof text,
           "%s ! batch 16 ! train-step model=mlp hidden=4 layers=1 steps=1 ! "
           "told",
           records);
  shown.n = 0;
  if (mr_graph_parse(g, text, NULL, 0, &d) < 0 || mr_graph_run(g, &d) < 0)
    fail_msg("%s: %s", text, d.text);
  mr_graph_destroy(g);
}

static void pictures_and_classes_come_from_the_fields_that_the_model_takes(void **state) {
  static mr_picture_t alone[SHOWN_MAX];
  run("synthetic n=64 ! shuffle seed=3 ! normalize");
  assert_int_equal(shown.n, 16);
  for (int i = 0; i < 16; i++) assert_in_range(shown.picture[i].truth, 0, 9);
  memcpy(alone, shown.picture, sizeof alone);
  run("synthetic n=64 ! zip.a  synthetic n=64 seed=9 ! drop label ! zip.b  "
      "zip prefix=,other. name=zip ! shuffle seed=3 ! normalize field=image ! "
      "normalize field=other.image ! select other.image,label,image");
  assert_int_equal(shown.n, 16);
  for (int i = 0; i < 16; i++) assert_memory_equal(&shown.picture[i], &alone[i], sizeof alone[i]);
}

static void numbers_show_no_picture(void **state) {
  run("synthetic n=64 ! zip.a  synthetic n=64 seed=9 ! normalize ! rename image:y ! select y ! "
      "zip.b  zip name=zip ! normalize field=image ! rename image:x");
  assert_int_equal(shown.n, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pictures_and_classes_come_from_the_fields_that_the_model_takes),
      cmocka_unit_test(numbers_show_no_picture)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
