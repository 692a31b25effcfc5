/* Every model of the table, found through it: names, gradients against differences, steps that go
   on exactly, both dtypes, records that do not count. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dataset.h"
#include "base/philox.h"
#include "model/train/train.h"
#include "model/transforms/transforms.h"
#include "model/zoo/zoo.h"
#include "pipeline/opt.h"

enum { B = 8, SIDE = 8, PIXELS = SIDE * SIDE * 3, OUTS = 3, CLASSES = 5 };

static const uint64_t seed = 20261122;

/* A small model of a def, of pictures with classes, or of numbers y of numbers x. */
typedef struct job {
  void *state;
  mr_model_field_t field[2];
  mr_model_t model;
  mr_params_t params;
  _Alignas(64) float x[B * PIXELS], y[B * OUTS], mask[B];
  _Alignas(64) int32_t label[B];
  const void *data[3];
} job_t;

static void set(job_t *j, const mr_model_def_t *def, const char *name, const char *text) {
  for (const mr_opt_t *o = def->opts; o && o->type != MR_OPT_END; o++)
    if (!strcmp(o->name, name)) assert_int_equal(mr_opt_set(o, j->state, "test", text, NULL), 0);
}

static void fill(job_t *j) {
  mr_philox_t g;
  mr_philox_init(&g, seed, 0);
  for (int i = 0; i < B * PIXELS; i++) j->x[i] = (float)mr_philox_uniform(&g, -1, 1);
  for (int i = 0; i < B * OUTS; i++) j->y[i] = (float)mr_philox_uniform(&g, -1, 1);
  for (int i = 0; i < B; i++) j->mask[i] = 1, j->label[i] = i % CLASSES;
}

static const mr_err_t *plan(job_t *j, const mr_model_def_t *def, bool numbers, mr_diag_t *diag) {
  static mr_err_t e;
  memset(j, 0, sizeof *j);
  j->state = calloc(1, def->state_sz + 1);
  for (const mr_opt_t *o = def->opts; o && o->type != MR_OPT_END; o++)
    if (o->def) assert_int_equal(mr_opt_set(o, j->state, "test", o->def, NULL), 0);
  static const char *const small[][2] = {{"layers", "1"}, {"embed", "16"}, {"mlp", "16"},
                                         {"heads", "2"},  {"patch", "4"},  {"hidden", "12"}};
  for (size_t i = 0; i < sizeof small / sizeof *small; i++) set(j, def, small[i][0], small[i][1]);
  j->field[0] = (mr_model_field_t){.name = numbers ? "x" : "image",
                                   .aval = mr_aval_of(MR_F32, SIDE, SIDE, 3),
                                   .layout = numbers ? "" : "HWC"};
  j->field[1] =
      numbers
          ? (mr_model_field_t){.name = "y", .aval = mr_aval_of(MR_F32, OUTS), .layout = ""}
          : (mr_model_field_t){
                .name = "label", .aval = mr_aval_scalar(MR_I32), .layout = "", .classes = CLASSES};
  fill(j);
  j->data[0] = j->x, j->data[1] = numbers ? (const void *)j->y : j->label, j->data[2] = j->mask;
  e = mr_model_plan(&j->model, def, j->state, 2, j->field, diag);
  return &e;
}

static void fini(job_t *j) {
  mr_params_fini(&j->params);
  free(j->state);
}

/* Calls f for each model, with what it can be trained on. */
static void each(void (*f)(job_t *j, const char *what)) {
  const mr_model_def_t *def;
  int tried = 0;
  job_t *j = aligned_alloc(64, (sizeof *j + 63) / 64 * 64);
  for (int i = 0; (def = mr_model_at(i)); i++)
    for (int numbers = 0; numbers < 2; numbers++) {
      mr_diag_t diag = {0};
      char what[64];
      if (*plan(j, def, numbers, &diag) >= 0) {
        snprintf(what, sizeof what, "%s of %s", def->name, numbers ? "numbers" : "classes");
        if (mr_loss_params(&j->model.plan.loss, seed, &j->params, &diag) < 0)
          fail_msg("%s: %s", what, diag.text);
        f(j, what);
        tried++;
      } else if (!diag.text[0]) {
        fail_msg("%s refuses without a sentence", def->name);
      }
      fini(j);
    }
  free(j);
  assert_true(tried >= 3);
}

static void a_table_row_is_whole(void **state) {
  const mr_model_def_t *def;
  for (int i = 0; (def = mr_model_at(i)); i++) {
    assert_ptr_equal(mr_model_find(def->name), def);
    assert_true(def->help && def->help[strlen(def->help) - 1] == '.');
    assert_true(def->plan && def->loss && def->metrics);
    for (const char *s = def->shapes; s && *s; s += strcspn(s, " "), s += strspn(s, " ")) {
      bool found = false;
      for (const mr_opt_t *o = def->opts; o && o->name; o++)
        found |= strlen(o->name) == strcspn(s, " ?") && !strncmp(o->name, s, strcspn(s, " ?"));
      if (!found) fail_msg("%s: shapes names %s, which is no setting", def->name, s);
    }
  }
  assert_null(mr_model_find("none"));
}

static mr_err_t no_plan(void *state, mr_model_plan_t *p, mr_diag_t *diag) { return MR_OK; }

static const char *reported_name;
static int reported_times;
static mr_err_t telling_plan(void *state, mr_model_plan_t *p, mr_diag_t *diag) {
  static char name[2 * MR_LOSS_METRICS][32];
  if (!mr_model_take(p, "x", diag)) return MR_ERR_SHAPE;
  for (int i = 0; i < reported_times; i++) {
    snprintf(name[i], sizeof name[i], "score_%d", i);
    mr_model_reports(p, name[i]);
  }
  if (reported_name) mr_model_reports(p, reported_name);
  return MR_OK;
}

static void a_metric_whose_name_is_reserved_or_malformed_is_refused_with_a_name_that_is_allowed(
    void **state) {
  static char longest[MR_METRIC_NAME_MAX + 2];
  memset(longest, 'a', MR_METRIC_NAME_MAX + 1);
  const char *const bad[] = {"",        "Loss",     "a,b",       "a b",           "1st",
                             "a-b",     "x\n",      "\"",        "gr\xc3\xb6sse", longest,
                             "loss",    "step",     "epoch",     "skipped",       "records",
                             "kind",    "note",     "confusion", "classes",       "images_total",
                             "stage_x", "finished", "rss_bytes", "learning_rate"};
  const mr_model_field_t x = {.name = "x", .aval = mr_aval_of(MR_F32, 3), .layout = ""};
  mr_model_def_t def = *mr_model_find("mlp");
  mr_model_t m;
  mr_diag_t diag = {0};
  def.plan = telling_plan, reported_times = 0;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    reported_name = bad[i], diag = (mr_diag_t){0};
    assert_int_equal(mr_model_plan(&m, &def, NULL, 1, &x, &diag), MR_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "model mlp: it reports a metric \""));
    char *allowed = strstr(diag.text, "; \""), near[MR_METRIC_NAME_MAX + 1];
    assert_non_null(allowed);
    snprintf(near, sizeof near, "%.*s", (int)strcspn(allowed + 3, "\""), allowed + 3);
    reported_name = near, diag = (mr_diag_t){0};
    if (mr_model_plan(&m, &def, NULL, 1, &x, &diag) < 0) fail_msg("%s: %s", bad[i], diag.text);
  }
  longest[300] = 0;
  const char *const good[] = {
      "a2345678901234567890_23", "time", "valid", "constructor", "eta", "accuracy", longest};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    reported_name = good[i], diag = (mr_diag_t){0};
    assert_int_equal(mr_model_plan(&m, &def, NULL, 1, &x, &diag), MR_OK);
    assert_string_equal(m.plan.loss.metric[0]->name, good[i]);
  }
  assert_true(MR_METRIC_OWN(ACCURACY)->more_is_better);
}

static void a_model_may_report_two_hundred_metrics_and_none_twice(void **state) {
  const mr_model_field_t x = {.name = "x", .aval = mr_aval_of(MR_F32, 3), .layout = ""};
  mr_model_def_t def = *mr_model_find("mlp");
  mr_model_t m;
  mr_diag_t diag = {0};
  def.plan = telling_plan, reported_name = NULL, reported_times = 200;
  assert_int_equal(mr_model_plan(&m, &def, NULL, 1, &x, &diag), MR_OK);
  assert_int_equal(m.plan.loss.n_metrics, 200);
  reported_times = MR_LOSS_METRICS + 1;
  assert_int_equal(mr_model_plan(&m, &def, NULL, 1, &x, &diag), MR_ERR_CONFIG);
  assert_non_null(strstr(diag.text, "model mlp: it reports more than"));
  reported_times = 2, reported_name = "score_1", diag = (mr_diag_t){0};
  assert_int_equal(mr_model_plan(&m, &def, NULL, 1, &x, &diag), MR_ERR_CONFIG);
  assert_non_null(strstr(diag.text, "model mlp: it reports the metric \"score_1\" twice"));
}

static mr_metric_def_t other_role = {.name = "score"};
static mr_err_t other_role_plan(void *state, mr_model_plan_t *p, mr_diag_t *diag) {
  if (!mr_model_take(p, "x", diag)) return MR_ERR_SHAPE;
  mr_model_judged_by(p, &other_role);
  return MR_OK;
}

static void a_model_is_judged_by_metrics_of_that_role_alone(void **state) {
  static const int roles[] = {MR_METRIC_STEP, MR_METRIC_MACHINE, MR_METRIC_STAGE, 77, -1};
  const mr_model_field_t x = {.name = "x", .aval = mr_aval_of(MR_F32, 3), .layout = ""};
  mr_model_def_t def = *mr_model_find("mlp");
  mr_model_t m;
  mr_diag_t diag = {0};
  def.plan = other_role_plan;
  for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
    other_role.role = (mr_metric_role_t)roles[i], diag = (mr_diag_t){0};
    assert_int_equal(mr_model_plan(&m, &def, NULL, 1, &x, &diag), MR_ERR_CONFIG);
    assert_non_null(strstr(diag.text,
                           "model mlp: its metric \"score\" has another role than "
                           "MR_METRIC_JUDGED"));
  }
  other_role.role = MR_METRIC_JUDGED, diag = (mr_diag_t){0};
  assert_int_equal(mr_model_plan(&m, &def, NULL, 1, &x, &diag), MR_OK);
  assert_ptr_equal(m.plan.loss.metric[0], &other_role);
}

static void a_model_that_lacks_something_or_exists_is_not_added(void **state) {
  mr_diag_t diag = {0};
  mr_model_def_t def = *mr_model_find("mlp");
  const mr_model_def_t *const table[] = {&def, NULL};
  assert_int_equal(mr_models_check(table, "test", &diag), MR_ERR_CONFIG);
  assert_non_null(strstr(diag.text, "mlp"));
  def.name = "other", def.metrics = NULL, diag = (mr_diag_t){0};
  assert_int_equal(mr_models_check(table, "test", &diag), MR_ERR_CONFIG);
  assert_non_null(strstr(diag.text, "metrics"));
  static mr_model_def_t own;
  static const mr_model_def_t *const owns[] = {&own, NULL};
  own = *mr_model_find("mlp"), own.name = "own", own.plan = no_plan, diag = (mr_diag_t){0};
  assert_int_equal(mr_models_check(owns, "test", &diag), MR_OK);
  mr_models_add(owns, "test");
  assert_ptr_equal(mr_model_find("own"), &own);
  mr_model_t m;
  assert_int_equal(mr_model_plan(&m, &own, NULL, 0, NULL, &diag), MR_ERR_CONFIG);
  assert_non_null(strstr(diag.text, "takes no field"));
}

/* The loss of the job's parameters, and where grad is not NULL its gradients, as an arena. */
static double loss_of(job_t *j, float *grad) {
  const mr_loss_t *l = &j->model.plan.loss;
  const mr_compute_t c = {.dtype = MR_F32};
  const mr_loss_use_t use = {.batch = B};
  mr_diag_t diag = {0};
  mr_params_t list = {0};
  mr_fn_t *loss = mr_loss_fn(l, &c, &use, &list, &diag), *g = NULL;
  if (!loss) fail_msg("%s", diag.text);
  int n = list.n, n_data = mr_loss_n_data(l), wrt[64], outs = loss->n_out;
  mr_exec_t *x = NULL;
  for (int i = 0; i < n; i++) wrt[i] = n_data + i;
  if (mr_value_and_grad(loss, n, wrt, &g, &diag) < 0 || mr_compile(g, NULL, &x, &diag) < 0)
    fail_msg("%s", diag.text);
  const void *in[80];
  void *out[80], *heap[80];
  uint64_t s = 0;
  uint32_t step = 0;
  for (int i = 0; i < n_data - 2; i++) in[i] = j->data[i];
  in[n_data - 2] = &s, in[n_data - 1] = &step;
  for (int i = 0; i < g->n_out; i++)
    out[i] = heap[i] = aligned_alloc(64, (mr_aval_bytes(&g->out[i]->aval) + 127) / 64 * 64);
  for (int i = 0; i < n; i++)
    in[n_data + i] = mr_params_at(&j->params, mr_params_set(&j->params, MR_SET_VALUES, 0), i);
  mr_exec_run(x, in, out);
  double value = (double)*(float *)out[0];
  for (int i = 0; grad && i < n; i++)
    memcpy(grad + list.param[i].offset, out[outs + i], list.param[i].size * sizeof *grad);
  for (int i = 0; i < g->n_out; i++) free(heap[i]);
  mr_exec_destroy(x), mr_fn_destroy(g), mr_fn_destroy(loss), mr_params_fini(&list);
  return value;
}

/* Along a random direction, by differences. */
static void check_gradient(job_t *j, const char *what) {
  size_t n = j->params.arena_size;
  float *p = mr_params_f32(&j->params, MR_SET_VALUES, 0), *was = malloc(n * sizeof *was);
  float *grad = calloc(n, sizeof *grad), *to = calloc(n, sizeof *to);
  const double h = 1e-2;
  double slope = 0, length = 0, side[2];
  mr_philox_t g;
  mr_philox_init(&g, seed, 1);
  memcpy(was, p, n * sizeof *was);
  loss_of(j, grad);
  for (int i = 0; i < j->params.n; i++)
    for (size_t k = 0; k < j->params.param[i].size; k++)
      to[j->params.param[i].offset + k] = (float)mr_philox_uniform(&g, -1, 1);
  for (size_t i = 0; i < n; i++) /* along the gradient as well, so that the slope is not 0 */
    to[i] = to[i] * .02f + grad[i], length += (double)to[i] * (double)to[i];
  for (size_t i = 0; i < n; i++)
    to[i] /= (float)sqrt(length), slope += (double)grad[i] * (double)to[i];
  for (int k = 0; k < 2; k++) {
    for (size_t i = 0; i < n; i++) p[i] = was[i] + (float)(k ? h : -h) * to[i];
    side[k] = loss_of(j, NULL);
  }
  double numeric = (side[1] - side[0]) / (2 * h);
  if (!(fabs(numeric - slope) < 1e-2 * fabs(slope) + 1e-4))
    fail_msg("%s, seed %llu: slope %g, by differences %g", what, (unsigned long long)seed, slope,
             numeric);
  memcpy(p, was, n * sizeof *was);
  free(was), free(grad), free(to);
}

static void gradients_are_those_by_differences(void **state) { each(check_gradient); }

static mr_train_step_t *step_of(job_t *j, mr_dtype_t dtype) {
  mr_train_config_t t = mr_train_default(B);
  mr_train_step_t *s = NULL;
  mr_diag_t diag = {0};
  t.compute.dtype = dtype;
  if (mr_train_step_create(&j->model.plan.loss, &t, &s, &diag) < 0) fail_msg("%s", diag.text);
  return s;
}

static mr_train_out_t run(job_t *j, mr_train_step_t *s, int64_t step) {
  mr_train_out_t out;
  mr_diag_t diag = {0};
  if (mr_train_step_run(s, &j->params, j->data, &(mr_train_in_t){step, 7, 1e-2f}, &diag) < 0)
    fail_msg("%s", diag.text);
  assert_int_equal(mr_train_step_read(s, true, &out, &diag), MR_OK);
  assert_int_equal(mr_train_step_read(s, true, &out, &diag), MR_END);
  assert_int_equal(out.step, step);
  return out;
}

/* Values and slots after four steps; with `again` the step is made anew after two. */
static void four_steps(job_t *j, mr_dtype_t dtype, bool again, float *loss) {
  mr_diag_t diag = {0};
  mr_params_fini(&j->params);
  if (mr_loss_params(&j->model.plan.loss, seed, &j->params, &diag) < 0) fail_msg("%s", diag.text);
  mr_train_step_t *s = step_of(j, dtype);
  for (int64_t t = 1; t <= 4; t++) {
    if (again && t == 3) mr_train_step_destroy(s), s = step_of(j, dtype);
    loss[t - 1] = run(j, s, t).loss;
  }
  mr_train_step_destroy(s);
}

static void check_steps(job_t *j, const char *what) {
  for (int k = 0; k < 2; k++) {
    float whole[4], parts[4];
    four_steps(j, k ? MR_BF16 : MR_F32, false, whole);
    size_t bytes = j->params.arena_size * sizeof(float);
    float *kept = malloc(3 * bytes);
    for (int i = 0; i < 3; i++)
      memcpy((char *)kept + (size_t)i * bytes, j->params.set[i].data, bytes);
    four_steps(j, k ? MR_BF16 : MR_F32, true, parts);
    assert_memory_equal(whole, parts, sizeof whole);
    for (int i = 0; i < 3; i++)
      assert_memory_equal((char *)kept + (size_t)i * bytes, j->params.set[i].data, bytes);
    if (!(whole[3] < whole[0]))
      fail_msg("%s: the loss goes from %g to %g", what, (double)whole[0], (double)whole[3]);
    free(kept);
  }
}

static void steps_resume_exactly_in_both_dtypes(void **state) { each(check_steps); }

static void leave_out(job_t *j, int i, float v) {
  j->label[i] = MR_LABEL_NONE, j->mask[i] = 0;
  for (int k = 0; k < PIXELS; k++) j->x[i * PIXELS + k] = v;
}

static void check_left_out(job_t *j, const char *what) {
  mr_train_out_t out[2];
  for (int k = 0; k < 2; k++) {
    mr_diag_t diag = {0};
    fill(j);
    leave_out(j, 2, k ? .5f : -.25f);
    mr_params_fini(&j->params);
    if (mr_loss_params(&j->model.plan.loss, seed, &j->params, &diag) < 0) fail_msg("%s", diag.text);
    mr_train_step_t *s = step_of(j, MR_F32);
    out[k] = run(j, s, 1);
    mr_train_step_destroy(s);
    assert_true(out[k].counted == B - 1);
  }
  if (memcmp(&out[0].loss, &out[1].loss, sizeof(float)) || out[0].metric[0] != out[1].metric[0] ||
      out[0].grad_norm != out[1].grad_norm)
    fail_msg("%s: a record that does not count does", what);
}

static void a_record_that_does_not_count_weighs_nothing(void **state) { each(check_left_out); }

static void a_step_refuses_a_run_while_four_are_unread(void **state) {
  job_t *j = aligned_alloc(64, (sizeof *j + 63) / 64 * 64);
  mr_diag_t diag = {0};
  mr_train_out_t out;
  assert_true(*plan(j, mr_model_find("mlp"), true, &diag) >= 0);
  assert_int_equal(mr_loss_params(&j->model.plan.loss, seed, &j->params, &diag), MR_OK);
  mr_train_step_t *s = step_of(j, MR_F32);
  for (int64_t t = 1; t <= MR_TRAIN_RING; t++)
    assert_int_equal(
        mr_train_step_run(s, &j->params, j->data, &(mr_train_in_t){t, 7, 1e-2f}, &diag), MR_OK);
  assert_int_equal(mr_train_step_run(s, &j->params, j->data, &(mr_train_in_t){9, 7, 1e-2f}, &diag),
                   MR_ERR_CONFIG);
  float last = INFINITY;
  for (int64_t t = 1; t <= MR_TRAIN_RING; t++) {
    assert_int_equal(mr_train_step_read(s, false, &out, &diag), MR_OK);
    assert_true(out.step == t && out.loss < last);
    last = out.loss;
  }
  assert_int_equal(mr_train_step_read(s, true, &out, &diag), MR_END);
  mr_train_step_destroy(s);
  fini(j);
  free(j);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_table_row_is_whole),
      cmocka_unit_test(gradients_are_those_by_differences),
      cmocka_unit_test(steps_resume_exactly_in_both_dtypes),
      cmocka_unit_test(a_record_that_does_not_count_weighs_nothing),
      cmocka_unit_test(a_step_refuses_a_run_while_four_are_unread),
      cmocka_unit_test(
          a_metric_whose_name_is_reserved_or_malformed_is_refused_with_a_name_that_is_allowed),
      cmocka_unit_test(a_model_may_report_two_hundred_metrics_and_none_twice),
      cmocka_unit_test(a_model_is_judged_by_metrics_of_that_role_alone),
      cmocka_unit_test(a_model_that_lacks_something_or_exists_is_not_added),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
