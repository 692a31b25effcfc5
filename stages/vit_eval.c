/* vit-eval: the loss, accuracy and confusion matrix of a checkpoint over a stream of batches. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "pipeline/stage_step.h"
#include "stages/vit_common.h"
#include "stages/vit_state.h"

typedef struct vit_eval {
  const char *checkpoint, *records;
  int dtype;
  bool ema;
  mr_vit_team_t team;

  mr_params_t params;
  mr_eval_step_t *step;
  mr_vit_progress_t at;
  double t0;
} vit_eval_t;

static const mr_opt_t vit_eval_opts[] = {
    {"checkpoint", MR_OPT_STR, offsetof(vit_eval_t, checkpoint), "", NULL, 0, 0, NULL,
     "Checkpoint file of vit-step; the model is the one it holds.", 1},
    {"dtype", MR_OPT_ENUM, offsetof(vit_eval_t, dtype), "", "bf16", 0, 0, "f32|bf16",
     "Type of the matrix products.", 0},
    {"records", MR_OPT_STR, offsetof(vit_eval_t, records), "", NULL, 0, 0, NULL,
     "What the records are called beside the result, where they are no test records.", 0},
    {"ema", MR_OPT_BOOL, offsetof(vit_eval_t, ema), "", "true", 0, 0, NULL,
     "Evaluates the average of the weights if the checkpoint holds one (vit-step ema=), not the "
     "weights of its last step.",
     0},
    MR_VIT_TEAM_OPTS(offsetof(vit_eval_t, team)),
    {0},
};

static mr_err_t vit_eval_plan(mr_stage_t *s) {
  const vit_eval_t *v = s->state;
  MR_TRY(mr_vit_check_input(s, 0));
  if (!v->checkpoint || !v->checkpoint[0])
    return mr_stage_fail(s, MR_ERR_CONFIG, "setting checkpoint: want the name of a file");
  s->out_spec[0] = mr_metrics_spec(s->in_spec[0].dataset);
  return MR_OK;
}

static mr_err_t load(vit_eval_t *v, const mr_spec_t *in, mr_diag_t *diag) {
  mr_vit_config_t c;
  const int64_t *dim = in->field->dim;
  MR_TRY(mr_vit_state_config(v->checkpoint, &c, diag));
  if (c.image != dim[0] || c.channels != dim[2] || c.classes != in->dataset->n_classes)
    return mr_fail(diag, MR_ERR_DATA,
                   "%s: its model takes %dx%dx%d pictures of %d classes, the stream brings "
                   "%lldx%lldx%lld of %d",
                   v->checkpoint, c.image, c.image, c.channels, c.classes, (long long)dim[0],
                   (long long)dim[1], (long long)dim[2], in->dataset->n_classes);
  c.dtype = v->dtype ? MR_BF16 : MR_F32;
  c.threads = (int)v->team.threads;
  c.pin = v->team.pin;
  MR_TRY(mr_vit_state_averaged(v->checkpoint, &v->params.averaged, diag));
  v->params.averaged &= v->ema;
  MR_TRY(mr_vit_params_list(&c, &v->params, diag));
  MR_TRY(mr_vit_state_check(v->checkpoint, &c, &v->params, diag));
  MR_TRY(mr_params_alloc(&v->params, diag));
  MR_TRY(mr_vit_state_load(v->checkpoint, &c, &v->params, &v->at, diag));
  return mr_eval_step_create(&c, in->batch, NULL, &v->step, diag);
}

static mr_err_t vit_eval_open(mr_stage_t *s) {
  vit_eval_t *v = s->state;
  mr_diag_t why = {0};
  v->t0 = mr_now_s();
  mr_vit_team_tell(s, &v->team);
  mr_err_t e = load(v, &s->in_spec[0], &why);
  mr_backends_leave(); /* batches are evaluated in the stage's own thread */
  return e < 0 ? mr_stage_fail(s, e, "%s", why.text) : MR_OK;
}

static void vit_eval_close(mr_stage_t *s) {
  vit_eval_t *v = s->state;
  mr_eval_step_destroy(v->step);
  mr_params_fini(&v->params);
  v->step = NULL;
}

static mr_err_t vit_eval_step(mr_stage_t *s) {
  vit_eval_t *v = s->state;
  mr_vit_tally_t tally = {0};
  mr_buf_t *b = NULL;
  mr_err_t e = mr_vit_evaluate(s, 0, v->step, &v->params, &tally);
  if (e == MR_AGAIN) return MR_END; /* stopped: half an evaluation says nothing */
  if (e != MR_OK) return e;
  MR_TRY(mr_fresh(s, 0, &b));
  if (!b) return MR_END;
  mr_metrics_t *r = b->data;
  memset(r, 0, sizeof *r);
  r->kind = MR_METRICS_TEST, r->step = v->at.step,
  r->epoch = v->at.epoch ? v->at.epoch : v->at.step > 0;
  r->images = v->at.images, r->ledger = v->at.ledger, r->elapsed_s = mr_now_s() - v->t0;
  r->dataset = s->in_spec[0].dataset;
  if (v->records) snprintf(r->note, sizeof r->note, "%s", v->records);
  mr_vit_tally_metrics(&tally, r);
  b->size = sizeof *r;
  return mr_push(s, 0, b);
}

const mr_stage_def_t mr_stage_vit_eval = {
    .name = "vit-eval",
    .help = "Evaluates a checkpoint of vit-step over each epoch of a stream.",
    .in = {{"in", MR_FLOW_BATCHES, false}},
    .out = {{"metrics", MR_FLOW_METRICS, true}},
    .opts = vit_eval_opts,
    .state_sz = sizeof(vit_eval_t),
    .plan = vit_eval_plan,
    .open = vit_eval_open,
    .close = vit_eval_close,
    .step = &(const mr_step_def_t){.run = vit_eval_step},
};
