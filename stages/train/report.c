/* What train-step reports: a record for each step; histograms and pictures now and then; a notice
   about pinned threads that share a processor. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "model/exec/device.h"
#include "pipeline/stage_step.h"
#include "stages/train/team.h"
#include "stages/train/train_step_private.h"

mr_err_t mr__train_report_fresh(mr_stage_t *s, mr_report_kind_t kind, mr_buf_t **out) {
  train_t *v = s->state;
  *out = NULL;
  if (!s->out_linked[OUT_METRICS]) return MR_OK;
  MR_TRY(mr_fresh(s, OUT_METRICS, out));
  if (!*out) return MR_OK; /* every consumer is gone */
  mr_report_t *r = (*out)->data;
  mr_report_begin(r, kind);
  r->step = v->at.step, r->total_steps = v->total;
  r->epoch = v->epoch, r->within = kind == MR_REPORT_VALID && v->at.epoch < v->epoch;
  r->images = v->at.images, r->elapsed_s = mr_now_s() - v->t0, r->ledger = v->at.ledger;
  r->dataset = s->in_spec[IN_TRAIN].dataset;
  (*out)->size = sizeof *r;
  return MR_OK;
}

mr_err_t mr__train_report_give(mr_stage_t *s, mr_buf_t *b) {
  mr_report_t *r = b ? b->data : NULL;
  if (!b) return MR_OK;
  if (mr_report_is_numbers(r)) mr_report_add_stages(r, s);
  bool whole = !r->incomplete;
  mr_err_t e = mr_push(s, OUT_METRICS, b);
  return whole || e < 0 ? e : mr_stage_no_memory(s, "a report");
}

mr_err_t mr__train_report_step(mr_stage_t *s, const mr_train_out_t *r, const mr_buf_t *batch,
                               double lr) {
  train_t *v = s->state;
  double took = mr_now_s() - v->step_t0;
  v->step_t0 += took;
  mr_buf_t *b;
  MR_TRY(mr__train_report_fresh(s, MR_REPORT_STEP, &b));
  if (!b) return MR_OK;
  mr_report_t *m = b->data;
  mr_report_add(m, MR_METRIC_OWN(LOSS), (double)r->loss);
  const mr_loss_t *loss = &v->model.plan.loss;
  for (int i = 0; i < loss->n_metrics; i++) mr_report_add(m, loss->metric[i], r->metric[i]);
  mr_report_add(m, MR_METRIC_OWN(LR), (double)lr);
  mr_report_add(m, MR_METRIC_OWN(GRAD_NORM), (double)r->grad_norm);
  mr_report_add(m, MR_METRIC_OWN(PARAM_NORM), (double)r->param_norm);
  mr_report_add(m, MR_METRIC_OWN(LOSS_SCALE), (double)r->loss_scale);
  if (mr__train_may_skip(v)) mr_report_add(m, MR_METRIC_OWN(SKIPPED_STEPS), r->skipped);
  mr_report_add(m, MR_METRIC_OWN(STEP_S), took);
  mr_report_add(m, MR_METRIC_OWN(IMAGES_PER_S), batch->n / took);
  return mr__train_report_give(s, b);
}

bool mr__train_watched(const mr_stage_t *s, int64_t step) {
  const train_t *v = s->state;
  /* Ranks that are processes give rank 0 their parts, or read their devices at the same time. */
  bool joins = v->agree && (v->in_parts || mr__train_has_shares(v) || !v->on->backend->host);
  return (s->out_linked[OUT_METRICS] || joins) && v->watch_every &&
         (step - 1) % v->watch_every == 0;
}

/* A batch's classes in the host's memory. */
static const int32_t *report_truth(const mr_buf_t *batch, const mr_train_sight_t *sight) {
  const mr_buf_field_t *f = &batch->field[sight->truth];
  return f->label ? f->label : f->data;
}

/* Writes record i's picture; room: of mr_train_value. */
static void report_picture(mr_stage_t *s, int port, const mr_train_sight_t *sight,
                           const mr_buf_t *batch, int i, int32_t truth, int guess, void *room,
                           mr_report_t *out) {
  const train_t *v = s->state;
  const mr_spec_t *spec = &s->in_spec[port];
  mr_picture_t *p = mr_report_add_picture(out);
  if (!p) return;
  p->truth = truth, p->guess = guess, p->key = batch->key[i];
  mr_train_picture(&spec->field[sight->picture],
                   mr_train_value(spec, batch, sight->picture, i, v->on, room), p);
}

/* Samples of a batch's pictures. */
static mr_err_t report_samples(mr_stage_t *s, const mr_buf_t *batch) {
  train_t *v = s->state;
  const mr_spec_t *spec = &s->in_spec[IN_TRAIN];
  mr_train_sight_t sight;
  mr_buf_t *b;
  if (!mr_train_sight(spec, &v->model.plan.loss, &sight)) return MR_OK;
  void *room = malloc(mr_field_bytes(&spec->field[sight.picture]) + 1);
  if (!room) return mr_stage_no_memory(s, "a picture");
  mr_err_t e = mr__train_report_fresh(s, MR_REPORT_SAMPLE, &b);
  int own = mr__agree_own(v->agree, batch);
  for (int i = 0; i < MR_TRAIN_SAMPLES && i < own && e == MR_OK && b; i++)
    report_picture(s, IN_TRAIN, &sight, batch, i, report_truth(batch, &sight)[i], -1, room,
                   b->data);
  free(room);
  return e == MR_OK ? mr__train_report_give(s, b) : e;
}

mr_err_t mr__train_report_watched(mr_stage_t *s, const mr_buf_t *batch) {
  train_t *v = s->state;
  mr_buf_t *b;
  if (!s->out_linked[OUT_METRICS]) return MR_OK;
  MR_TRY(report_samples(s, batch));
  MR_TRY(mr__train_report_fresh(s, MR_REPORT_HISTOGRAMS, &b));
  if (b) mr_train_watch_histograms(&v->watch, &v->params, b->data);
  return mr__train_report_give(s, b);
}

void mr__train_report_wrong(mr_stage_t *s, const mr_tally_t *tally, int port, const mr_buf_t *batch,
                            int i, int32_t truth, int guess) {
  mr_buf_t *b;
  mr_train_sight_t sight;
  if (!mr_train_sight(&s->in_spec[port], tally->loss, &sight)) return;
  if (mr_tally_confused(tally, truth, guess) > MR_TRAIN_WRONG) return;
  if (mr__train_report_fresh(s, MR_REPORT_WRONG, &b) < 0 || !b) return;
  ((mr_report_t *)b->data)->input = s->in_name[port];
  report_picture(s, port, &sight, batch, i, truth, guess, NULL, b->data);
  (void)mr__train_report_give(s, b); /* a failure here is the graph's, and ends the step anyway */
}

void mr_train_team_report(const mr_stage_t *s, const mr_train_team_t *t) {
  int n = mr_device_processors(mr_device_default());
  if (!t->pin || !n || t->threads <= n) return;
  mr_notice(
      "%s: pin=true ties threads=%lld to %d processor%s, which is all this process may use: some "
      "share one; threads=0 takes one each",
      s->name, (long long)t->threads, n, n == 1 ? "" : "s");
}
