/* vit-step: one training step a batch; evaluation after each epoch and at the end.

   Here the two graphs meet: batches come from the stream graph, a compiled tensor graph takes
   them.  The stage owns the parameters.  It reads its valid input up to the end of an epoch
   whenever the training stream ends one, and its test input at the end of the run; what it says
   leaves as metrics, what it is leaves as state for a checkpoint. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/ledger.h"
#include "pipeline/stage_step.h"
#include "stages/vit_step_private.h"

/* Tells the sinks that a state follows (pipeline/durable.h); *mark 0: no sink listens. */
static mr_err_t give_mark(mr_stage_t *s, int64_t *mark) {
  vit_step_t *v = s->state;
  mr_buf_t *b;
  *mark = 0;
  MR_TRY(mr__vit_metrics_fresh(s, MR_METRICS_MARK, &b));
  if (b) ((mr_metrics_t *)b->data)->mark = *mark = ++v->marks;
  return mr__vit_metrics_give(s, b);
}

/* Gives out state unless this step's is out already.  last: the run ends with it. */
static mr_err_t save(mr_stage_t *s, bool last) {
  vit_step_t *v = s->state;
  if (!s->out_linked[OUT_STATE] || (v->saved_step == v->at.step && !v->at.unvalidated && !last))
    return MR_OK;
  mr_buf_t *b = NULL;
  int64_t mark;
  mr_err_t e = give_mark(s, &mark);
  if (e < 0) return e;
  MR_TRY(mr_fresh(s, OUT_STATE, &b));
  if (!b) return MR_OK;
  if (!v->fixed_scale) v->at.scale = *mr_train_step_scale(v->step);
  b->size = mr_vit_state_pack(&v->params, &v->config, &v->at, s->name, last, b->data);
  ((mr_state_t *)b->data)->mark = mark;
  v->saved_step = v->at.step;
  return mr_push(s, OUT_STATE, b);
}

/* MR_AGAIN: an orderly stop came in between, nothing was told. */
static mr_err_t evaluate(mr_stage_t *s, int port, mr_metrics_kind_t kind) {
  vit_step_t *v = s->state;
  if (!s->in_linked[port]) return MR_OK;
  mr_vit_tally_t tally = {.wrong = mr__vit_tell_wrong};
  if (port < MR_VIT_STREAMS) tally.at = v->at.stream[port];
  mr_err_t e = mr_vit_evaluate(s, port, v->eval, &v->params, &tally);
  v->step_t0 = mr_now_s();
  if (e == MR_END) return MR_OK;
  if (e != MR_OK) return e;
  if (port < MR_VIT_STREAMS) v->at.stream[port] = tally.at;
  mr_buf_t *b;
  MR_TRY(mr__vit_metrics_fresh(s, kind, &b));
  if (b) mr_vit_tally_metrics(&tally, b->data);
  return mr__vit_metrics_give(s, b);
}

static mr_err_t validate(mr_stage_t *s) {
  vit_step_t *v = s->state;
  mr_err_t e = evaluate(s, IN_VALID, MR_METRICS_VALID);
  if (e == MR_OK) v->at.unvalidated = false;
  return e;
}

/* Why the run ends, into the final record. */
static void say_why(mr_stage_t *s, bool stopped, mr_metrics_t *r) {
  const vit_step_t *v = s->state;
  char nothing[sizeof r->note] = "";
  if (!stopped && !v->at.step) mr_nothing_came(s, IN_TRAIN, nothing, sizeof nothing);
  const char *why = *nothing ? nothing : stopped ? "stopped on request" : "finished";
  snprintf(r->note, sizeof r->note, "%s", why);
}

/* The run's end: test unless stopped, the last state, the final record. */
static mr_err_t finish(mr_stage_t *s) {
  bool stopped = mr_stopping(s);
  if (!stopped) {
    mr_err_t e = evaluate(s, IN_TEST, MR_METRICS_TEST);
    if (e < 0) return e;
    stopped = e == MR_AGAIN;
  }
  MR_TRY(save(s, true));
  mr_buf_t *b;
  MR_TRY(mr__vit_metrics_fresh(s, MR_METRICS_FINAL, &b));
  if (b) say_why(s, stopped, b->data);
  MR_TRY(mr__vit_metrics_give(s, b));
  return MR_END;
}

/* The step counts, so that those after it are the same: their rate, masks and corrections follow
   its number. */
static mr_err_t pass_step(mr_stage_t *s, const mr_buf_t *batch) {
  vit_step_t *v = s->state;
  mr_buf_t *b;
  v->at.step++, v->epoch = v->at.epoch + 1;
  mr_stream_at_pass(&v->at.stream[IN_TRAIN], &s->in_spec[IN_TRAIN], batch);
  v->at.ledger = mr_ledger_step(v->at.ledger, v->at.step, NULL, NULL, 0, 0);
  MR_TRY(mr__vit_metrics_fresh(s, MR_METRICS_STEP, &b));
  if (b) mr_metrics_add(b->data, "skipped", 1);
  MR_TRY(mr__vit_metrics_give(s, b));
  if (batch->flags & MR_BUF_EPOCH_END) v->at.epoch = batch->epoch + 1, v->at.unvalidated = true;
  return MR_OK;
}

static mr_err_t train_on(mr_stage_t *s, const mr_buf_t *batch) {
  vit_step_t *v = s->state;
  if (!batch->n) return pass_step(s, batch);
  if (batch->n != s->in_spec[IN_TRAIN].batch)
    return mr_stage_fail(s, MR_ERR_SHAPE,
                         "a batch of %d records: want %" PRId64
                         "; give the batch stage drop-remainder",
                         batch->n, s->in_spec[IN_TRAIN].batch);
  float lr = mr_schedule_at(&v->rate, v->at.step);
  mr_train_out_t r;
  bool watch = mr__vit_watched(s, v->at.step + 1);
  if (watch) {
    mr_optim_t optim = mr__vit_train_config(v, batch->n).optim;
    mr_vit_watch_before(&v->watch, &optim, lr, &v->params);
  }
  MR_TRY(mr_train_step_run(v->step, &v->params, batch->data, batch->label, lr, v->at.step + 1,
                           v->at.seed, &r, s->diag));
  if (v->profile.after)
    v->profile.after(v->profile.arg, mr_train_step_profiled(v->step), v->at.step + 1);
  uint32_t bits;
  memcpy(&bits, &r.loss, sizeof bits);
  v->at.step++, v->epoch = v->at.epoch + 1;
  v->at.images += batch->n;
  mr_stream_at_pass(&v->at.stream[IN_TRAIN], &s->in_spec[IN_TRAIN], batch);
  v->at.ledger = mr_ledger_step(v->at.ledger, v->at.step, batch->key, batch->draw, batch->n, bits);
  MR_TRY(mr__vit_tell_step(s, &r, batch, lr));
  if (watch && r.applied) MR_TRY(mr__vit_tell_watched(s, batch));
  if (batch->flags & MR_BUF_EPOCH_END) v->at.epoch = batch->epoch + 1, v->at.unvalidated = true;
  return MR_OK;
}

static mr_err_t vit_step_step(mr_stage_t *s) {
  vit_step_t *v = s->state;
  if (v->at.unvalidated && !mr_stopping(s)) {
    mr_err_t e = validate(s);
    if (e != MR_OK) return e == MR_AGAIN ? MR_OK : e;
    MR_TRY(save(s, false));
  }
  if (mr_stopping(s) || (v->total && v->at.step >= v->total)) return finish(s);
  mr_buf_t *batch = NULL;
  mr_err_t e = mr_pull(s, IN_TRAIN, &batch);
  if (e == MR_END) return finish(s);
  if (e != MR_OK) return e;
  e = train_on(s, batch);
  mr_buf_unref(batch);
  if (e == MR_OK && v->checkpoint_every && v->at.step % v->checkpoint_every == 0 &&
      !v->at.unvalidated)
    e = save(s, false);
  return e;
}

void mr_vit_step_profile(mr_stage_t *s, mr_vit_profile_t p) {
  ((vit_step_t *)s->state)->profile = p;
}

static void vit_step_report(mr_stage_t *s, char *text, size_t n) {
  const vit_step_t *v = s->state;
  snprintf(text, n, "%" PRId64 " steps, ledger %016" PRIx64, v->at.step, v->at.ledger);
}

const mr_stage_def_t mr_stage_vit_step = {
    .name = "vit-step",
    .help = "Trains a Vision Transformer, one step a batch, and evaluates it.",
    .in = {{"in", MR_FLOW_BATCHES, false},
           {"valid", MR_FLOW_BATCHES, true},
           {"test", MR_FLOW_BATCHES, true}},
    .out = {{"metrics", MR_FLOW_METRICS, true}, {"state", MR_FLOW_STATE, true}},
    .opts = mr__vit_step_opts,
    .state_sz = sizeof(vit_step_t),
    .plan = mr__vit_step_plan,
    .open = mr__vit_step_open,
    .close = mr__vit_step_close,
    .step = &(const mr_step_def_t){.run = vit_step_step},
    .report = vit_step_report,
};
