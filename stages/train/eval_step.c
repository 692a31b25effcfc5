/* eval-step: evaluates a checkpoint: its loss and metrics over a stream of batches.  The model and
   its settings are read from the checkpoint itself, never from the graph, so that it cannot be
   evaluated as another model than was trained; what differs from the stream is an error. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/machine.h"
#include "base/text.h"
#include "base/xio.h"
#include "model/exec/device.h"
#include "model/zoo/zoo.h"
#include "pipeline/care.h"
#include "pipeline/stage_step.h"
#include "stages/train/amp.h"
#include "stages/train/fields.h"
#include "stages/train/inputs.h"
#include "stages/train/recall.h"
#include "stages/train/state.h"
#include "stages/train/tally.h"
#include "stages/train/team.h"

/* ---- the stage ---- */

typedef struct eval_step {
  const char *checkpoint, *records, *mistakes, *device;
  mr_train_amp_t amp;
  bool ema;
  int precision;
  int64_t evaluations;
  mr_train_team_t team;

  int64_t done; /* evaluations */
  mr_recalled_t recalled;
  mr_train_inputs_t inputs; /* of the checkpoint, from plan or open to forget; none: older */
  bool compared;            /* the classes of the batches have been compared with these */
  mr_train_aligned_t aligned;
  mr_dataset_t dataset; /* of the batches, with the classes of the checkpoint */
  mr_model_t model;
  mr_train_metrics_t metrics; /* of the reports */
  mr_params_t params;
  const mr_device_t *on; /* the device, from open to close */
  mr_eval_step_t *step;
  mr_train_progress_t at;
  double t0;
  FILE *wrong; /* the file of the mistakes, under its temporary name; NULL: none */
  mr_newfile_t listed;
  off_t listed_to; /* its bytes after the last whole evaluation; 0: none was whole, or none wrong */
  bool whole;      /* an evaluation was, or all have ended */
} eval_step_t;

static const mr_opt_t eval_step_opts[] = {
    {.name = "checkpoint",
     .type = MR_OPT_STR,
     .offset = offsetof(eval_step_t, checkpoint),
     .help = "Checkpoint file of train-step; the model is the one it holds.",
     .positional = 1},
    MR_TRAIN_AMP_OPTS(offsetof(eval_step_t, amp)),
    MR_TRAIN_READS_OPTS(offsetof(eval_step_t, amp)),
    {.name = "records",
     .type = MR_OPT_STR,
     .offset = offsetof(eval_step_t, records),
     .help = "What the records are called beside the result, where they are no test records."},
    {.name = "mistakes",
     .type = MR_OPT_STR,
     .offset = offsetof(eval_step_t, mistakes),
     .help = "File that gets a line of JSON for each record whose class is guessed wrong: its id, "
             "its class and the guess, when the evaluations have ended; default: none."},
    {.name = "evaluations",
     .type = MR_OPT_INT,
     .offset = offsetof(eval_step_t, evaluations),
     .unit = "epochs",
     .def = "0",
     .hi = 1e12,
     .help = "Ends after this many, also of an endless stream; 0: when the stream ends."},
    {.name = "ema",
     .type = MR_OPT_BOOL,
     .offset = offsetof(eval_step_t, ema),
     .def = "true",
     .help = "Evaluates the average of the weights if the checkpoint holds one (train-step ema=), "
             "not the weights of its last step."},
    {.name = "matmul-precision",
     .type = MR_OPT_ENUM,
     .offset = offsetof(eval_step_t, precision),
     .def = "none",
     .choices = "none|default|high|highest",
     .help = "Precision of products of f32, as train-step's."},
    MR_TRAIN_TEAM_OPTS(offsetof(eval_step_t, team)),
    {.name = "device",
     .type = MR_OPT_STR,
     .offset = offsetof(eval_step_t, device),
     .def = "cpu",
     .help = MR_TRAIN_DEVICE_HELP},
    {0},
};

/* Has the labels of the batches in the numbers of the checkpoint's model, and reports call them as
   it does. */
static mr_err_t compare_classes(mr_stage_t *s) {
  eval_step_t *v = s->state;
  mr_diag_t why = {0};
  char of[256];
  if (v->compared) return MR_OK;
  mr_err_t e = mr_train_inputs_read(v->checkpoint, &v->inputs, &why);
  if (e < 0) return mr_stage_relay(s, e, &why);
  snprintf(of, sizeof of, "the checkpoint %.200s", v->checkpoint);
  MR_TRY(mr_train_align(s, 0, &v->inputs.spec, of, &v->aligned));
  v->compared = true;
  int label = mr_spec_label(&s->in_spec[0]);
  if (label >= 0) mr_train_name_dataset(&s->in_spec[0], label, &v->dataset);
  return MR_OK;
}

static void eval_step_forget(mr_stage_t *s) {
  eval_step_t *v = s->state;
  mr_train_aligned_fini(&v->aligned);
  mr_train_inputs_fini(&v->inputs);
  v->compared = false;
}

/* The file of the mistakes is a new one that takes the name of an older one. */
static mr_err_t check_mistakes(mr_stage_t *s) {
  const eval_step_t *v = s->state;
  mr_diag_t why = {0}, named = {0};
  if (!v->mistakes || mr_newfile_check(v->mistakes, &why) >= 0) return MR_OK;
  return mr_stage_relay(s, mr_diag_prefix(&named, MR_ERR_CONFIG, &why, "setting mistakes"), &named);
}

static mr_err_t eval_step_plan(mr_stage_t *s) {
  eval_step_t *v = s->state;
  if (!v->checkpoint || !v->checkpoint[0])
    return mr_stage_fail(s, MR_ERR_CONFIG, "setting checkpoint: want the name of a file");
  mr_diag_t why = {0};
  if (mr_device_check(v->device, &why) < 0) return mr_stage_relay(s, why.code, &why);
  MR_TRY(check_mistakes(s));
  MR_TRY(mr_train_amp_plan(s, &v->amp));
  if (access(v->checkpoint, R_OK) == 0) MR_TRY(compare_classes(s)); /* else open says more */
  s->out_spec[0] = mr_report_spec(s->in_spec[0].dataset, &v->metrics.list);
  return MR_OK;
}

/* Restores the checkpoint's model, and checks that it is a model of these batches. */
static mr_err_t recall_checkpoint(mr_stage_t *s) {
  eval_step_t *v = s->state;
  char holds[MR_MODEL_TEXT], brings[MR_MODEL_TEXT];
  mr_diag_t why = {0};
  mr_err_t e = mr_train_state_model(v->checkpoint, holds, &why);
  if (e >= 0) e = mr_recall_model(&v->recalled, v->checkpoint, holds, &why);
  if (e < 0) return mr_stage_relay(s, e, &why);
  MR_TRY(compare_classes(s));
  MR_TRY(mr_train_model_for(s, 0, v->recalled.def, v->recalled.state, &v->model));
  mr_model_text(&v->model, brings);
  if (mr_spec_label(&s->in_spec[0]) == -2)
    mr_train_name_dataset(&s->in_spec[0], mr_train_truth(&s->in_spec[0], &v->model.plan.loss),
                          &v->dataset);
  static const mr_metric_id_t own[] = {MR_METRIC_ID_RECORDS};
  mr_train_metrics_list(&v->metrics, &v->model.plan.loss, own, 1);
  if (!strcmp(holds, brings)) return MR_OK;
  return mr_stage_fail(s, MR_ERR_DATA,
                       "%s: its model is \"%s\", for these batches it would be \"%s\"",
                       v->checkpoint, holds, brings);
}

static mr_err_t eval_step_load(eval_step_t *v, int64_t batch, mr_diag_t *diag) {
  const mr_loss_t *loss = &v->model.plan.loss;
  mr_compute_t compute = {.threads = (int)v->team.threads, .pin = v->team.pin};
  mr_train_amp_set(&v->amp, &compute);
  MR_TRY(mr_device_open(v->device, &v->on, diag));
  compute.device = v->on;
  compute.precision = (mr_precision_t)v->precision;
  MR_TRY(mr_recall_params(v->checkpoint, &v->model, v->ema, &compute, &v->params, &v->at, diag));
  return mr_eval_step_create(loss, &compute, batch, NULL, &v->step, diag);
}

/* ---- the file of the mistakes ---- */

/* Adds a class by its name, or by its number if it has none. */
static void add_class(cJSON *o, const char *key, const mr_dataset_t *of, int32_t class) {
  if (of && of->class_name && class < of->n_classes && of->class_name[class])
    cJSON_AddStringToObject(o, key, of->class_name[class]);
  else
    cJSON_AddNumberToObject(o, key, class);
}

static void note_mistake(mr_stage_t *s, const mr_tally_t *tally, int port, const mr_buf_t *b, int i,
                         int32_t truth, int32_t guess) {
  const eval_step_t *v = s->state;
  cJSON *o = cJSON_CreateObject();
  char id[24];
  snprintf(id, sizeof id, "%" PRIu64, b->key[i] & ~MR_KEY_SKIPPED);
  cJSON_AddRawToObject(o, "id", id);
  add_class(o, "class", s->in_spec[port].dataset, truth);
  add_class(o, "guess", s->in_spec[port].dataset, guess);
  char *text = cJSON_PrintUnformatted(o);
  cJSON_Delete(o);
  if (text) fprintf(v->wrong, "%s\n", text);
  cJSON_free(text);
}

/* Makes the file under a temporary name: one of this name stays until the evaluations have ended.
 */
static mr_err_t open_mistakes(mr_stage_t *s) {
  eval_step_t *v = s->state;
  mr_diag_t why = {0};
  if (!v->mistakes || !*v->mistakes) return MR_OK;
  if (!v->model.plan.loss.classes)
    return mr_stage_fail(
        s, MR_ERR_CONFIG,
        "setting mistakes: %s: the model of %s predicts no class, so that no guess "
        "is wrong; want an evaluation without this file",
        v->mistakes, v->checkpoint);
  mr_err_t e = mr_newfile_open(&v->listed, v->mistakes, &why);
  if (e < 0) return mr_diag_prefix(s->diag, e, &why, "%s: setting mistakes", s->name);
  v->listed_to = 0, v->whole = false;
  int own = fcntl(v->listed.fd, F_DUPFD_CLOEXEC, 0);
  if (own >= 0 && (v->wrong = fdopen(own, "w"))) return MR_OK;
  e = mr_stage_fail(s, MR_ERR_IO, "setting mistakes: %s: cannot be opened: %s", v->mistakes,
                    strerror(errno));
  if (own >= 0) close(own);
  mr_newfile_drop(&v->listed);
  return e;
}

/* After an evaluation: what is listed so far is whole. */
static mr_err_t flush_mistakes(mr_stage_t *s) {
  eval_step_t *v = s->state;
  if (!v->wrong) return MR_OK;
  v->whole = true;
  if (!fflush(v->wrong) && !ferror(v->wrong) && (v->listed_to = ftello(v->wrong)) >= 0)
    return MR_OK;
  return mr_stage_fail(s, MR_ERR_IO, "setting mistakes: %s: cannot be written: %s", v->mistakes,
                       strerror(errno));
}

/* Gives the file its name, without the lines of an evaluation that was stopped; a file of no whole
   evaluation is left to be dropped. */
static mr_err_t end_mistakes(mr_stage_t *s) {
  eval_step_t *v = s->state;
  mr_diag_t why = {0};
  if (!v->wrong || !v->whole) return MR_OK;
  bool cut = fflush(v->wrong) == 0 && ftruncate(v->listed.fd, v->listed_to) == 0;
  int reason = errno;
  fclose(v->wrong);
  v->wrong = NULL;
  if (!cut) {
    mr_newfile_drop(&v->listed);
    return mr_stage_fail(s, MR_ERR_IO, "setting mistakes: %s: cannot be written: %s", v->mistakes,
                         strerror(reason));
  }
  mr_err_t e = mr_newfile_commit(&v->listed, &why);
  return e < 0 ? mr_diag_prefix(s->diag, e, &why, "%s: setting mistakes", s->name) : MR_OK;
}

static void drop_listed(eval_step_t *v) {
  if (!v->wrong) return;
  fclose(v->wrong);
  mr_newfile_drop(&v->listed);
  v->wrong = NULL;
}

/* What keeps the model from being recalled is said by open. */
static mr_err_t eval_step_memory(mr_stage_t *s, bool models, mr_takes_t *out) {
  eval_step_t *v = s->state;
  mr_compute_t compute = {.threads = (int)v->team.threads, .pin = v->team.pin};
  mr_eval_step_t *step = NULL;
  mr_diag_t why = {0}, *diag = s->diag;
  if (v->on) return MR_OK; /* open already */
  mr_train_amp_set(&v->amp, &compute);
  compute.precision = (mr_precision_t)v->precision;
  s->diag = &why;
  mr_err_t e = recall_checkpoint(s);
  s->diag = diag;
  if (e >= 0) e = mr_recall_takes(v->checkpoint, &v->model, v->ema, &compute, out, &why);
  size_t was, now = mr_process_memory(&was);
  if (e >= 0 && models && mr_device_on_host(v->device))
    e = mr_eval_step_create(&v->model.plan.loss, &compute, s->in_spec[0].batch, NULL, &step, &why);
  if (step) out->bytes += mr_recall_runs(mr_eval_step_exec(step), now, was);
  mr_eval_step_destroy(step);
  mr_recalled_fini(&v->recalled);
  return MR_OK;
}

static mr_err_t eval_step_open(mr_stage_t *s) {
  eval_step_t *v = s->state;
  mr_diag_t why = {0};
  v->t0 = mr_now_s();
  mr_train_team_report(s, &v->team);
  MR_TRY(recall_checkpoint(s));
  MR_TRY(open_mistakes(s));
  mr_err_t e = eval_step_load(v, s->in_spec[0].batch, &why);
  mr_backends_leave(); /* batches are evaluated in the stage's own thread */
  return mr_stage_relay(s, e, &why);
}

static void eval_step_close(mr_stage_t *s) {
  eval_step_t *v = s->state;
  mr_eval_step_destroy(v->step);
  mr_params_fini(&v->params);
  mr_recalled_fini(&v->recalled);
  mr_device_close(v->on);
  drop_listed(v);
  v->step = NULL, v->on = NULL;
}

/* The decay of the average that is evaluated, as the run's setting had it: not with the digits that
   an f32 has besides. */
static double evaluated_decay(const eval_step_t *v) {
  char text[32];
  mr_snprintf(text, sizeof text, "%.7g", (double)v->at.ema);
  return mr_strtod(text, NULL);
}

static mr_err_t eval_step_step(mr_stage_t *s) {
  eval_step_t *v = s->state;
  mr_tally_t tally = {
      .loss = &v->model.plan.loss, .aligned = &v->aligned, .wrong = v->wrong ? note_mistake : NULL};
  mr_buf_t *b = NULL;
  if (v->evaluations && v->done == v->evaluations) {
    MR_TRY(end_mistakes(s));
    return MR_END;
  }
  v->done++;
  mr_err_t e = mr_train_evaluate(s, 0, v->step, &v->params, &tally);
  if (e == MR_OK) e = flush_mistakes(s);
  if (e == MR_OK) e = mr_fresh(s, 0, &b);
  if (e != MR_OK || !b) { /* also if stopped: half an evaluation is no result */
    mr_tally_fini(&tally);
    v->whole |= !tally.stopped;
    if (e >= 0) MR_TRY(end_mistakes(s));
    return e != MR_OK ? e : MR_END;
  }
  mr_report_t *r = b->data;
  mr_report_begin(r, MR_REPORT_TEST);
  r->step = v->at.step, r->epoch = v->at.epoch ? v->at.epoch : v->at.step > 0;
  r->images = v->at.images, r->ledger = v->at.ledger, r->elapsed_s = mr_now_s() - v->t0;
  r->dataset = s->in_spec[0].dataset;
  if (v->ema) r->average = evaluated_decay(v);
  if (v->records) snprintf(r->note, sizeof r->note, "%s", v->records);
  e = mr_tally_report(&tally, r);
  mr_tally_fini(&tally);
  mr_report_add_stages(r, s);
  b->size = sizeof *r;
  if (e >= 0 && !r->incomplete) return mr_push(s, 0, b);
  mr_buf_unref(b);
  return mr_stage_no_memory(s, "a report");
}

static const mr_step_def_t eval_step_run = {.run = eval_step_step};

static const mr_hint_t eval_step_words[] = {
    {"eval evaluate evaluator validate test", "eval-step checkpoint=FILE",
     "stage \"eval-step\" evaluates a checkpoint"},
    {0}};

const mr_stage_def_t mr_stage_eval_step = {
    .name = "eval-step",
    .alias = "vit-eval", /* its former name */
    .hint = eval_step_words,
    .help = "Evaluates a checkpoint of train-step over each epoch of a stream.",
    .in = {{"in", MR_FLOW_BATCHES, false}},
    .out = {{"metrics", MR_FLOW_METRICS, true}},
    .opts = eval_step_opts,
    .state_sz = sizeof(eval_step_t),
    .plan = eval_step_plan,
    .memory = eval_step_memory,
    .forget = eval_step_forget,
    .open = eval_step_open,
    .close = eval_step_close,
    .step = &eval_step_run,
};
