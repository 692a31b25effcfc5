/* predict: what a checkpoint's model says of each record of a stream.  The model, the fields that
   it takes and how they are prepared are the checkpoint's; a stream needs no labels.  Batches stay
   in their order, with the ids of their records, so that any stage of batches can follow: a
   link-out makes it a server. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine.h"
#include "model/exec/device.h"
#include "model/train/predict.h"
#include "pipeline/opt.h"
#include "pipeline/stage_step.h"
#include "stages/train/amp.h"
#include "stages/train/fields.h"
#include "stages/train/inputs.h"
#include "stages/train/recall.h"
#include "stages/train/team.h"

/* A batch that the model works on, and the fields that are its own. */
typedef struct predict_flight {
  mr_buf_t *b;
  mr_train_batch_t fields;
} predict_flight_t;

typedef struct predict {
  const char *checkpoint, *device;
  bool features, ema;
  int precision;
  mr_train_amp_t amp;
  mr_train_team_t team;

  mr_train_inputs_t inputs; /* of the checkpoint; from plan to forget, as the next four */
  mr_spec_t joined;         /* the fields that the model is planned for */
  mr_recalled_t recalled;
  mr_model_t model;
  mr_predict_form_t form;
  int at[MR_LOSS_FIELDS]; /* field of the input for each field of the loss; -1: not read */
  bool classes;           /* a share for each class is predicted */
  mr_params_t params;
  const mr_device_t *on;
  mr_predict_step_t *step;
  void *zeros[MR_LOSS_FIELDS + 1]; /* batches of what is not read */
  predict_flight_t flight[MR_TRAIN_RING];
  int64_t begun, read;
  mr_train_progress_t progress;
} predict_t;

static const mr_opt_t predict_opts[] = {
    {.name = "checkpoint",
     .type = MR_OPT_STR,
     .offset = offsetof(predict_t, checkpoint),
     .help = "Checkpoint file of train-step; the model is the one it holds.",
     .positional = 1},
    {.name = "features",
     .type = MR_OPT_BOOL,
     .offset = offsetof(predict_t, features),
     .def = "false",
     .help = "Gives what the model's last product takes, its embedding of the record, instead of "
             "what it predicts."},
    MR_TRAIN_AMP_OPTS(offsetof(predict_t, amp)),
    MR_TRAIN_READS_OPTS(offsetof(predict_t, amp)),
    {.name = "ema",
     .type = MR_OPT_BOOL,
     .offset = offsetof(predict_t, ema),
     .def = "true",
     .help =
         "Predicts by the average of the weights if the checkpoint holds one (train-step ema=), "
         "not by the weights of its last step."},
    {.name = "matmul-precision",
     .type = MR_OPT_ENUM,
     .offset = offsetof(predict_t, precision),
     .def = "none",
     .choices = "none|default|high|highest",
     .help = "Precision of products of f32, as train-step's."},
    MR_TRAIN_TEAM_OPTS(offsetof(predict_t, team)),
    {.name = "device",
     .type = MR_OPT_STR,
     .offset = offsetof(predict_t, device),
     .def = "cpu",
     .help = MR_TRAIN_DEVICE_HELP},
    {0},
};

/* ---- the model for a stream ---- */

static bool prepared_alike(const mr_field_t *a, const mr_field_t *b) {
  bool known = a->std[0] > 0 && b->std[0] > 0;
  return !known ||
         (!memcmp(a->mean, b->mean, sizeof a->mean) && !memcmp(a->std, b->std, sizeof a->std));
}

/* The fields that the model takes: those of the stream where it has them, else the checkpoint's. */
static mr_err_t join_fields(mr_stage_t *s, mr_spec_t *to) {
  const predict_t *v = s->state;
  const mr_spec_t *in = &s->in_spec[0];
  *to = v->inputs.spec;
  to->batch = in->batch;
  for (int i = 0; i < to->n_fields; i++) {
    mr_field_t *f = &to->field[i];
    int at = mr_spec_find(in, f->name);
    char has[256], wants[256];
    if (at < 0 || f->label) continue;
    const mr_field_t *g = &in->field[at];
    mr_field_text(g, 0, has, sizeof has), mr_field_text(f, 0, wants, sizeof wants);
    bool same = g->ndim == f->ndim && !g->ragged && g->layout == f->layout &&
                !memcmp(g->dim, f->dim, (size_t)f->ndim * sizeof *f->dim);
    if (!same)
      return mr_stage_fail(s, MR_ERR_SHAPE,
                           "input in has %s, and the model of %s was trained on %s", has,
                           v->checkpoint, wants);
    if (!prepared_alike(f, g))
      return mr_stage_fail(s, MR_ERR_CONFIG,
                           "field %s is normalised by mean=%g,%g,%g std=%g,%g,%g, and the model of "
                           "%s was trained with mean=%g,%g,%g std=%g,%g,%g",
                           f->name, (double)g->mean[0], (double)g->mean[1], (double)g->mean[2],
                           (double)g->std[0], (double)g->std[1], (double)g->std[2], v->checkpoint,
                           (double)f->mean[0], (double)f->mean[1], (double)f->mean[2],
                           (double)f->std[0], (double)f->std[1], (double)f->std[2]);
    *f = *g;
  }
  return MR_OK;
}

static mr_err_t plan_recalled(mr_stage_t *s) {
  predict_t *v = s->state;
  mr_model_field_t field[MR_FIELDS_MAX];
  char holds[MR_MODEL_TEXT], brings[MR_MODEL_TEXT];
  mr_diag_t why = {0};
  MR_TRY(join_fields(s, &v->joined));
  mr_err_t e = mr_train_state_model(v->checkpoint, holds, &why);
  if (e >= 0) e = mr_recall_model(&v->recalled, v->checkpoint, holds, &why);
  int n = mr_train_fields(&v->joined, field);
  if (e >= 0) e = mr_model_plan(&v->model, v->recalled.def, v->recalled.state, n, field, &why);
  if (e < 0) return mr_stage_relay(s, e, &why);
  mr_model_text(&v->model, brings);
  if (!strcmp(holds, brings)) return MR_OK;
  return mr_stage_fail(s, MR_ERR_DATA,
                       "%s: its model is \"%s\", for these batches it would be \"%s\"",
                       v->checkpoint, holds, brings);
}

/* The index of the checkpoint's label, or of its rows for classes; -1: the model predicts no class.
 */
static int class_field(const predict_t *v) {
  for (int i = 0; i < v->inputs.spec.n_fields; i++)
    if (v->inputs.spec.field[i].label || v->inputs.spec.field[i].classes) return i;
  return -1;
}

static mr_predicts_t choose_predicts(const predict_t *v) {
  return v->features           ? MR_PREDICTS_FEATURES
         : class_field(v) >= 0 ? MR_PREDICTS_SHARES
                               : MR_PREDICTS_VALUES;
}

/* Finds each field that the prediction depends on in the stream. */
static mr_err_t find_fields(mr_stage_t *s) {
  predict_t *v = s->state;
  const mr_loss_t *l = &v->model.plan.loss;
  char names[512];
  for (int i = 0; i < l->n_fields; i++) {
    v->at[i] = v->form.reads[i] ? mr_spec_find(&s->in_spec[0], l->field[i].name) : -1;
    if (v->at[i] >= 0 || !v->form.reads[i]) continue;
    return mr_stage_fail(s, MR_ERR_SHAPE,
                         "the model of %s takes the field %s, and input in has %s; want a stream "
                         "with it (`rename` gives another field its name)",
                         v->checkpoint, l->field[i].name,
                         mr_spec_names(&s->in_spec[0], names, sizeof names));
  }
  return MR_OK;
}

/* What leaves: the class with its shares, numbers, or features. */
static void plan_predictions(mr_stage_t *s) {
  const predict_t *v = s->state;
  mr_spec_t *out = &s->out_spec[0];
  const mr_field_t *of = class_field(v) >= 0 ? &v->inputs.spec.field[class_field(v)] : NULL;
  mr_field_t numbers = {.dtype = MR_F32, .ndim = 1, .dim = {v->form.width}};
  *out = s->in_spec[0];
  out->n_fields = 0, out->dataset = NULL; /* the classes are the model's, not those of the data */
  if (v->classes) {
    mr_field_t class = mr_field_of_label((int)v->form.width);
    strcpy(class.name, "class");
    class.classes = numbers.classes = of->classes;
    out->field[out->n_fields++] = class;
  }
  strcpy(numbers.name, v->features ? "features" : v->classes ? "scores" : "y");
  out->field[out->n_fields++] = numbers;
}

static mr_err_t predict_plan(mr_stage_t *s) {
  predict_t *v = s->state;
  mr_diag_t why = {0};
  if (!v->checkpoint || !v->checkpoint[0])
    return mr_stage_fail(s, MR_ERR_CONFIG, "setting checkpoint: want the name of a file");
  if (mr_device_check(v->device, &why) < 0) return mr_stage_relay(s, why.code, &why);
  MR_TRY(mr_train_amp_plan(s, &v->amp));
  if (s->in_spec[0].device)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "the batches of input in lie on device %s, want them in the host's memory",
                         s->in_spec[0].device);
  char model[MR_MODEL_TEXT];
  mr_err_t e = mr_train_inputs_read(v->checkpoint, &v->inputs, &why);
  if (e >= 0 && !v->inputs.spec.n_fields) e = mr_train_state_model(v->checkpoint, model, &why);
  if (e >= 0 && !v->inputs.spec.n_fields)
    return mr_stage_fail(s, MR_ERR_DATA,
                         "%s: is of an earlier version and does not say which fields its model "
                         "takes; a resumed run writes one that does",
                         v->checkpoint);
  if (e < 0) return mr_stage_relay(s, e, &why);
  MR_TRY(plan_recalled(s));
  e = mr_predict_form(&v->model.plan.loss, choose_predicts(v), &v->form, &why);
  if (e < 0) return mr_stage_relay(s, e, &why);
  v->classes = choose_predicts(v) == MR_PREDICTS_SHARES;
  MR_TRY(find_fields(s));
  plan_predictions(s);
  return MR_OK;
}

static void predict_forget(mr_stage_t *s) {
  predict_t *v = s->state;
  mr_train_inputs_fini(&v->inputs);
  mr_recalled_fini(&v->recalled);
}

/* ---- running ---- */

static mr_err_t predict_load(mr_stage_t *s, mr_diag_t *diag) {
  predict_t *v = s->state;
  const mr_loss_t *l = &v->model.plan.loss;
  mr_compute_t compute = {.threads = (int)v->team.threads, .pin = v->team.pin};
  mr_train_amp_set(&v->amp, &compute);
  MR_TRY(mr_device_open(v->device, &v->on, diag));
  compute.device = v->on;
  compute.precision = (mr_precision_t)v->precision;
  MR_TRY(
      mr_recall_params(v->checkpoint, &v->model, v->ema, &compute, &v->params, &v->progress, diag));
  for (int i = 0; i < l->n_fields + l->masked; i++) {
    const mr_aval_t held = i < l->n_fields ? mr_loss_held(&l->field[i]) : mr_aval_scalar(MR_F32);
    size_t bytes = (mr_aval_bytes(&held) * (size_t)s->in_spec[0].batch + 63) / 64 * 64;
    if (i < l->n_fields && v->at[i] >= 0) continue;
    if (!(v->zeros[i] = aligned_alloc(64, bytes))) return mr_no_memory(diag, "a batch");
    memset(v->zeros[i], 0, bytes);
  }
  return mr_predict_step_create(l, &compute, s->in_spec[0].batch, choose_predicts(v), &v->step,
                                diag);
}

static mr_err_t predict_memory(mr_stage_t *s, bool models, mr_takes_t *out) {
  predict_t *v = s->state;
  mr_compute_t compute = {.threads = (int)v->team.threads, .pin = v->team.pin};
  mr_predict_step_t *step = NULL;
  mr_diag_t why = {0};
  if (v->on) return MR_OK; /* open already */
  mr_train_amp_set(&v->amp, &compute);
  compute.precision = (mr_precision_t)v->precision;
  mr_err_t e = mr_recall_takes(v->checkpoint, &v->model, v->ema, &compute, out, &why);
  size_t was, now = mr_process_memory(&was);
  if (e >= 0 && models && mr_device_on_host(v->device))
    e = mr_predict_step_create(&v->model.plan.loss, &compute, s->in_spec[0].batch,
                               choose_predicts(v), &step, &why);
  if (step) out->bytes += mr_recall_runs(mr_predict_step_exec(step), now, was);
  mr_predict_step_destroy(step);
  return mr_stage_relay(s, e, &why);
}

static mr_err_t predict_open(mr_stage_t *s) {
  predict_t *v = s->state;
  mr_diag_t why = {0};
  mr_train_team_report(s, &v->team);
  mr_err_t e = predict_load(s, &why);
  mr_backends_leave(); /* batches are predicted in the stage's own thread */
  return mr_stage_relay(s, e, &why);
}

static void predict_close(mr_stage_t *s) {
  predict_t *v = s->state;
  mr_predict_step_destroy(v->step);
  for (; v->read < v->begun; v->read++) {
    predict_flight_t *f = &v->flight[v->read % MR_TRAIN_RING];
    mr_train_batch_fini(&f->fields);
    mr_buf_unref(f->b);
  }
  for (int i = 0; i <= MR_LOSS_FIELDS; i++) free(v->zeros[i]), v->zeros[i] = NULL;
  mr_params_fini(&v->params);
  mr_device_close(v->on);
  v->step = NULL, v->on = NULL;
}

/* Points the fields at b's, or at copies padded with its last record. */
static bool take_fields(mr_stage_t *s, predict_flight_t *f) {
  predict_t *v = s->state;
  const mr_loss_t *l = &v->model.plan.loss;
  size_t n = (size_t)f->b->n, B = (size_t)s->in_spec[0].batch;
  f->fields = (mr_train_batch_t){.own = {NULL}};
  for (int i = 0; i < l->n_fields + l->masked; i++) {
    bool given = i < l->n_fields && v->at[i] >= 0;
    f->fields.field[i] = given ? f->b->field[v->at[i]].data : v->zeros[i];
    if (!given || n == B) continue;
    const mr_aval_t held = mr_loss_held(&l->field[i]);
    size_t record = mr_aval_bytes(&held);
    char *to = f->fields.own[i] = aligned_alloc(64, (B * record + 63) / 64 * 64);
    if (!to) return false;
    memcpy(to, f->fields.field[i], n * record);
    for (size_t k = n; k < B; k++) memcpy(to + k * record, to + (n - 1) * record, record);
    f->fields.field[i] = to;
  }
  return true;
}

/* The class with the largest share of a row. */
static int32_t find_largest(const float *row, int64_t n) {
  int32_t at = 0;
  for (int64_t i = 1; i < n; i++)
    if (row[i] > row[at]) at = (int32_t)i;
  return at;
}

/* Writes the rows of a batch; those of excluded records are zeros and no class. */
static void write_predictions(const predict_t *v, const mr_buf_t *b, const float *values,
                              mr_buf_t *out) {
  size_t row = (size_t)v->form.width * sizeof *values;
  int f = v->classes;
  memcpy(out->field[f].data, values, (size_t)b->n * row);
  for (int i = 0; i < b->n; i++) {
    char *numbers = (char *)out->field[f].data + (size_t)i * row;
    if (b->excluded[i]) memset(numbers, 0, row);
    if (v->classes)
      ((int32_t *)out->field[0].data)[i] =
          b->excluded[i] ? MR_LABEL_NONE
                         : find_largest(values + (size_t)i * (size_t)v->form.width, v->form.width);
  }
}

/* Passes on the oldest batch, of which values are the rows; NULL: it is empty. */
static mr_err_t predict_give(mr_stage_t *s, mr_buf_t *b, const float *values) {
  const predict_t *v = s->state;
  mr_buf_t *out;
  mr_err_t e = mr_fresh(s, 0, &out);
  if (e != MR_OK) return mr_buf_unref(b), e;
  size_t n = (size_t)b->n;
  out->epoch = b->epoch, out->position = b->position, out->first = b->first, out->n = b->n;
  out->flags = b->flags;
  memcpy(out->key, b->key, n * sizeof *b->key);
  memcpy(out->draw, b->draw, n * sizeof *b->draw);
  memcpy(out->excluded, b->excluded, n);
  if (s->in_spec[0].n_words)
    memcpy(out->word, b->word, (size_t)s->in_spec[0].n_words * sizeof *b->word);
  if (values) write_predictions(v, b, values, out);
  out->size = n * mr_spec_bytes(&s->out_spec[0]) / (size_t)s->out_spec[0].batch;
  mr_buf_unref(b);
  return mr_push(s, 0, out);
}

/* Gives what is ready; waits while more than `most` batches are in flight. */
static mr_err_t give_ready(mr_stage_t *s, int64_t most) {
  predict_t *v = s->state;
  const float *values;
  while (v->read < v->begun) {
    mr_err_t e = mr_predict_step_read(v->step, v->begun - v->read > most, &values, s->diag);
    if (e != MR_OK) return e < 0 ? e : MR_OK;
    predict_flight_t *f = &v->flight[v->read++ % MR_TRAIN_RING];
    mr_buf_t *b = f->b;
    mr_train_batch_fini(&f->fields);
    f->b = NULL;
    MR_TRY(e = predict_give(s, b, values));
    if (e != MR_OK) return e;
  }
  return MR_OK;
}

static mr_err_t predict_step(mr_stage_t *s) {
  predict_t *v = s->state;
  mr_buf_t *b = NULL;
  mr_err_t e = mr_pull(s, 0, &b);
  if (e == MR_END) {
    e = give_ready(s, 0);
    return e == MR_OK ? MR_END : e;
  }
  if (e != MR_OK) return e;
  if (!b->n) { /* nothing to compute, but its place in the stream */
    e = give_ready(s, 0);
    return e == MR_OK ? predict_give(s, b, NULL) : (mr_buf_unref(b), e);
  }
  predict_flight_t *f = &v->flight[v->begun % MR_TRAIN_RING];
  f->b = b;
  e = take_fields(s, f) ? mr_predict_step_run(v->step, &v->params, f->fields.field, s->diag)
                        : mr_stage_no_memory(s, "padding a batch");
  v->begun++; /* close frees it, also after a failure */
  return e < 0 ? e : give_ready(s, MR_TRAIN_RING - 2);
}

static const mr_step_def_t predict_run = {.run = predict_step};

static const mr_hint_t predict_words[] = {
    {"infer inference predictor classify", "predict checkpoint=FILE",
     "stage \"predict\" says what a checkpoint's model predicts"},
    {0}};

const mr_stage_def_t mr_stage_predict = {
    .name = "predict",
    .hint = predict_words,
    .help = "Gives what a checkpoint of train-step predicts for each record: classes and scores.",
    .in = {{"in", MR_FLOW_BATCHES, false}},
    .out = {{"out", MR_FLOW_BATCHES, false}},
    .opts = predict_opts,
    .state_sz = sizeof(predict_t),
    .plan = predict_plan,
    .memory = predict_memory,
    .forget = predict_forget,
    .open = predict_open,
    .close = predict_close,
    .step = &predict_run,
};
