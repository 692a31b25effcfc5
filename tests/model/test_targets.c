/* The loss of targets, rows that give each class a share: against the cross-entropy in double, and,
   where a row is one class, step by step against the loss of classes. */
#include "tests/vectors.h"

#include <math.h>

#include "base/dataset.h"
#include "model/model.h"
#include "model/train/train.h"
#include "tests/random.h"

enum { B = 12, IN = 5, C = 7 };

static const double *smoothing; /* of the loss under test */

static mr_var_t *linear_logits(mr_nn_t *s, mr_var_t *x) {
  const mr_init_t init = {.kind = MR_INIT_NORMAL, .a = 0.7f};
  return mr_lax_linear(s->f, x, mr_nn_param_of(s, "W", init, IN, C), NULL, false);
}

static mr_err_t targets_trace(const void *of, mr_nn_t *s, mr_var_t *const *field,
                              mr_loss_out_t *out) {
  mr_fn_t *f = s->f;
  bool targets = field[1]->aval.dtype == MR_F32;
  mr_var_t *logits = linear_logits(s, field[0]);
  out->losses = targets ? mr_loss_of_targets(f, logits, field[1], field[2], *smoothing)
                        : mr_lax_softmax_cross_entropy(f, logits, field[1], (float)*smoothing);
  out->loss = mr_lax_scale(f, 1.0 / B, mr_lax_reduce_sum(f, out->losses, 1, (int[]){0}));
  out->out[0] = logits;
  return f->diag.code < 0 ? f->diag.code : MR_OK;
}

static mr_err_t targets_metrics(const void *of, mr_fn_t *f, mr_var_t *const *field,
                                mr_var_t *const *out, mr_loss_report_t *reported) {
  return field[1]->aval.dtype == MR_F32
             ? mr_loss_report_targets(f, out[0], field[1], field[2], reported)
             : mr_loss_report_classes(f, out[0], field[1], reported);
}

static mr_loss_t loss_of(bool targets) {
  mr_model_field_t x = {
      .name = "x", .aval = {.dtype = MR_F32, .ndim = 1, .dim = {IN}}, .layout = ""};
  mr_model_field_t row = {
      .name = "label", .aval = {.dtype = MR_F32, .ndim = 1, .dim = {C}}, .layout = ""};
  mr_model_field_t label = {.name = "label", .aval = {.dtype = MR_I32}, .layout = "", .classes = C};
  return (mr_loss_t){.trace = targets_trace,
                     .metrics = targets_metrics,
                     .n_fields = 2,
                     .field = {x, targets ? row : label},
                     .masked = targets,
                     .classes = targets ? 0 : C,
                     .n_metrics = 1,
                     .metric = {MR_METRIC_OWN(ACCURACY)}};
}

typedef struct learner {
  mr_loss_t loss;
  mr_params_t params;
  mr_train_step_t *step;
} learner_t;

static void learner_init(learner_t *t, bool targets) {
  mr_train_config_t config = mr_train_default(B);
  mr_diag_t diag = {0};
  config.compute.dtype = MR_F32;
  *t = (learner_t){.loss = loss_of(targets)};
  if (mr_loss_params(&t->loss, 3, &t->params, &diag) < 0 ||
      mr_train_step_create(&t->loss, &config, &t->step, &diag) < 0)
    fail_msg("%s", diag.text);
}

static mr_train_out_t learner_run(learner_t *t, int64_t step, const void *const *field) {
  const mr_train_in_t in = {.step = step, .seed = 5, .lr = 1e-2f};
  mr_train_out_t out;
  mr_diag_t diag = {0};
  if (mr_train_step_run(t->step, &t->params, field, &in, &diag) < 0) fail_msg("%s", diag.text);
  assert_int_equal(mr_train_step_read(t->step, true, &out, NULL), MR_OK);
  return out;
}

static void learner_fini(learner_t *t) {
  mr_train_step_destroy(t->step);
  mr_params_fini(&t->params);
}

typedef struct records {
  _Alignas(64) float x[B][IN];
  _Alignas(64) float row[B][C];
  _Alignas(64) float mask[B];
  _Alignas(64) int32_t label[B];
} records_t;

static void draw_records(round_t *r, records_t *b, bool hot) {
  for (int i = 0; i < B; i++) {
    double sum = 0;
    for (int k = 0; k < IN; k++) b->x[i][k] = (float)(draw(r, 2001) - 1000) / 100;
    b->mask[i] = !one_in(r, 4);
    b->label[i] = b->mask[i] ? draw(r, C) : MR_LABEL_NONE;
    for (int c = 0; c < C; c++) sum += b->row[i][c] = (float)(1 + draw(r, 1000));
    for (int c = 0; c < C; c++) b->row[i][c] = hot ? c == b->label[i] : (float)(b->row[i][c] / sum);
  }
}

static void one_class_is_the_loss_of_classes(void **state) {
  static records_t b;
  static const double shares[] = {0, 0.1};
  round_t r = round_first(10);
  while (round_next(&r)) {
    learner_t rows, classes;
    smoothing = &shares[draw(&r, 2)];
    learner_init(&rows, true), learner_init(&classes, false);
    for (int step = 1; step <= 8; step++) {
      draw_records(&r, &b, true);
      mr_train_out_t a = learner_run(&rows, step, (const void *const[]){b.x, b.row, b.mask});
      mr_train_out_t c = learner_run(&classes, step, (const void *const[]){b.x, b.label});
      round_check(&r, a.counted == c.counted && a.metric[0] == c.metric[0], "step %d", step);
      round_check(&r, fabsf(a.loss - c.loss) <= 1e-5f * (1 + fabsf(c.loss)), "step %d: %g, not %g",
                  step, a.loss, c.loss);
      round_check(&r, fabsf(a.grad_norm - c.grad_norm) <= 1e-4f * (1 + c.grad_norm), "step %d",
                  step);
    }
    learner_fini(&rows), learner_fini(&classes);
  }
}

/* Loss and accuracy of the first step, from the parameters as they are drawn. */
static void shares_give_the_cross_entropy(void **state) {
  static records_t b;
  static const double shares[] = {0, 0.25};
  round_t r = round_first(40);
  while (round_next(&r)) {
    learner_t t;
    smoothing = &shares[draw(&r, 2)];
    learner_init(&t, true);
    draw_records(&r, &b, false);
    float W[IN * C];
    assert_int_equal(t.params.n, 1);
    memcpy(W, mr_params_f32(&t.params, MR_SET_VALUES, 0), sizeof W);
    double want = 0, counted = 0, right = 0;
    for (int i = 0; i < B; i++) {
      double z[C], top = -1e9, sum = 0;
      int guess = 0, most = 0;
      for (int c = 0; c < C; c++) {
        z[c] = 0;
        for (int k = 0; k < IN; k++) z[c] += (double)b.x[i][k] * W[k * C + c];
        if (z[c] > z[guess]) guess = c;
        if (b.row[i][c] > b.row[i][most]) most = c;
        top = fmax(top, z[c]);
      }
      for (int c = 0; c < C; c++) sum += exp(z[c] - top);
      for (int c = 0; c < C && b.mask[i]; c++)
        want -= ((1 - *smoothing) * b.row[i][c] + *smoothing / C) * (z[c] - top - log(sum));
      counted += b.mask[i], right += b.mask[i] && guess == most;
    }
    mr_train_out_t out = learner_run(&t, 1, (const void *const[]){b.x, b.row, b.mask});
    round_check(&r, out.counted == counted, "%g records count", out.counted);
    if (counted) {
      round_check(&r, fabs(out.loss - want / counted) < 1e-4 * (1 + want / counted), "%g, not %g",
                  out.loss, want / counted);
      round_check(&r, fabs(out.metric[0] - right / counted) < 1e-6, "accuracy %g", out.metric[0]);
    }
    learner_fini(&t);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {

      cmocka_unit_test(one_class_is_the_loss_of_classes),
      cmocka_unit_test(shares_give_the_cross_entropy),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
