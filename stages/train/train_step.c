/* train-step: one training step for each batch; evaluation after each epoch and at the end.

   Here the two graphs meet: batches come from the stream graph, and a compiled tensor graph takes
   them.  The stage owns the parameters.  It reads its valid input up to the end of an epoch
   whenever the training stream ends one, and its test input at the end of the run.  Its reports
   leave as metrics, its parameters as state for a checkpoint. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/ledger.h"
#include "pipeline/stage_step.h"
#include "stages/train/train_step_private.h"

/* Announces a state to the sinks (pipeline/run/durable.h); *mark 0: no consumer. */
static mr_err_t give_mark(mr_stage_t *s, int64_t *mark) {
  train_t *v = s->state;
  mr_buf_t *b;
  *mark = 0;
  MR_TRY(mr__train_report_fresh(s, MR_REPORT_MARK, &b));
  if (b) ((mr_report_t *)b->data)->mark = *mark = ++v->marks;
  return mr__train_report_give(s, b);
}

/* Gives the state whose parameters were being copied, when they are.  A sink that has left is no
   failure. */
static mr_err_t train_step_give_saved(mr_stage_t *s) {
  train_t *v = s->state;
  mr_buf_t *b = v->saving;
  if (!b) return MR_OK;
  v->saving = NULL;
  mr_err_t e = mr_train_step_fetch_end(v->step, s->diag);
  if (e < 0) return mr_buf_unref(b), e;
  e = mr_push(s, OUT_STATE, b);
  return e < 0 ? e : MR_OK;
}

void mr__train_says_fetching(const train_t *v) {
  const mr_process_ranks_t *p = mr_process_ranks();
  const char *what = p && !p->rank ? "gathers the parts of the ranks of" : "gives its parts of";
  mr__agree_doing(v->agree, what, v->at.step, MR_PACE_VALUES);
}

/* Has the step give the stage its parameters by one of the calls that do, in which ranks that are
   processes may wait for each other: a failure names the stage and the step that was finished. */
static mr_err_t fetch_params(mr_stage_t *s, mr_err_t (*fetch)(mr_train_step_t *t, mr_params_t *p,
                                                              mr_diag_t *diag)) {
  train_t *v = s->state;
  mr_diag_t why = {0};
  v->fetching = true;
  mr__train_says_fetching(v);
  mr_err_t e = fetch(v->step, &v->params, &why);
  v->fetching = false;
  if (e == MR_ERR_CANCEL) return e; /* the graph ends, which says why */
  return mr_diag_prefix(s->diag, e, &why, "%s: step %" PRId64, s->name, v->at.step);
}

/* Gives a state, unless that of this step has been given.  last: the run ends with it.  Where a
   device copies its parameters beside the commands, train_step_give_saved gives it: the next step
   begins meanwhile. */
static mr_err_t train_step_save(mr_stage_t *s, bool last) {
  train_t *v = s->state;
  MR_TRY(train_step_give_saved(s));
  if (!s->out_linked[OUT_STATE] || (v->saved_step == v->at.step && !v->at.unvalidated && !last))
    return MR_OK;
  mr_buf_t *b = NULL;
  int64_t mark;
  /* Waits until all states are back. */
  bool sliced = mr__train_has_slices(v) && v->slices_step == v->at.step;
  mr_err_t e = sliced ? MR_OK : fetch_params(s, mr_train_step_fetch_begin);
  if (e < 0) return e;
  mr__agree_doing(v->agree, "gives the checkpoint of", v->at.step, MR_PACE_TENSORS);
  MR_TRY(give_mark(s, &mark));
  MR_TRY(mr_fresh(s, OUT_STATE, &b));
  if (!b) return MR_OK;
  const mr_scale_state_t *scale = mr_train_step_scale(v->step);
  if (!v->fixed_scale || scale->skipped) v->at.scale = *scale;
  v->at.fp8 = mr_train_step_fp8(v->step);
  v->at.judged = v->judged_step == v->at.step ? v->judged : NULL;
  v->at.slices = sliced ? v->slices : NULL;
  char model[MR_MODEL_TEXT];
  mr_model_text(&v->model, model);
  b->size = mr_train_state_pack(&v->params, model, &v->at, s->name, last, b->data);
  mr_state_t *state = b->data;
  state->mark = mark, state->resumed = v->resume != NULL;
  v->saved_step = v->at.step, v->saved_t0 = mr_now_s();
  v->saving = b;
  return e == MR_AGAIN && !last ? MR_OK : train_step_give_saved(s);
}

/* Whether the run is to end before its time.  Ranks that are processes end when all have agreed to:
   one that has been asked alone continues until then. */
static bool train_step_stops(const mr_stage_t *s) {
  const train_t *v = s->state;
  return v->agree ? v->agreed_stop : mr_stopping(s);
}

bool mr_train_stage_stopped(const mr_stage_t *s) {
  return ((const train_t *)s->state)->agreed_stop;
}

/* Whether ranks keep the slots of their shares where a checkpoint is made, as each writes them. */
static bool keeps_shares(const train_t *v) {
  return mr__train_has_shares(v) && mr__train_has_slices(v);
}

/* Whether ranks have shares of what an evaluation reads. */
static bool has_judged_shares(const train_t *v) {
  return v->ema > 0 || mr__train_has_value_shares(v);
}

/* Reports an evaluation.  Consumers that have left are no stop. */
static mr_err_t train_step_evaluated(mr_stage_t *s, mr_report_kind_t kind, int port,
                                     const mr_tally_t *tally) {
  mr_buf_t *b;
  mr_err_t e = mr__train_report_fresh(s, kind, &b);
  if (e == MR_OK && b && kind == MR_REPORT_VALID)
    ((mr_report_t *)b->data)->input = s->in_name[port];
  if (e == MR_OK && b) ((mr_report_t *)b->data)->average = ((const train_t *)s->state)->ema;
  if (e == MR_OK && b && mr_tally_report(tally, b->data) < 0) {
    mr_buf_unref(b);
    return mr_stage_no_memory(s, "a report");
  }
  if (e == MR_OK) e = mr__train_report_give(s, b);
  return e < 0 ? e : MR_OK;
}

/* Evaluates an input and reports the result, if there are records.  at: where the input's stream
   is, moved behind the evaluation; NULL: nothing keeps that.  MR_OK.  MR_END: an orderly stop
   interrupted it, nothing was reported and *at is unchanged. */
static mr_err_t train_step_evaluate(mr_stage_t *s, int port, mr_report_kind_t kind,
                                    mr_stream_at_t *at) {
  train_t *v = s->state;
  if (!s->in_linked[port]) return MR_OK;
  bool kept = keeps_shares(v);
  if (!kept || has_judged_shares(v))
    MR_TRY(fetch_params(s, kept ? mr_train_step_average : mr_train_step_whole));
  mr__agree_doing(v->agree, "evaluates after", v->at.step, MR_PACE_BATCHES);
  mr_tally_t tally = {
      .loss = &v->eval_loss, .aligned = &v->aligned[port], .wrong = mr__train_report_wrong};
  if (at) tally.at = *at;
  mr_err_t e = mr_train_evaluate(s, port, v->eval, &v->params, &tally);
  v->step_t0 = mr_now_s();
  if (e == MR_OK && at) *at = tally.at;
  if (e == MR_OK && kind == MR_REPORT_VALID) mr_tally_judged(&tally, s->in_name[port], v->judged);
  if (e == MR_OK)
    e = train_step_evaluated(s, kind, port, &tally);
  else if (e == MR_END && !tally.stopped)
    e = MR_OK;
  mr_tally_fini(&tally);
  return e;
}

/* All inputs of held-back records count as one validation: a stop in any of them leaves all streams
   where they began, since a resumed run evaluates all of them again. */
static mr_err_t validate_model(mr_stage_t *s) {
  train_t *v = s->state;
  mr_stream_at_t at = v->at.stream[IN_VALID];
  v->judged[0] = 0, v->judged_step = -1;
  mr_err_t e = train_step_evaluate(s, IN_VALID, MR_REPORT_VALID, &at);
  mr_train_more_t more[MR_TRAIN_MORE];
  memcpy(more, v->at.more, sizeof more);
  for (int port = IN_MORE_VALID; port < s->n_in && e == MR_OK; port++)
    e = train_step_evaluate(s, port, MR_REPORT_VALID, &more[port - IN_MORE_VALID].at);
  if (e != MR_OK) return e;
  v->at.unvalidated = false, v->at.stream[IN_VALID] = at;
  memcpy(v->at.more, more, sizeof more);
  mr__train_judge(s);
  return e;
}

/* Writes why the run ends into the final record. */
static void say_why(mr_stage_t *s, bool stopped, mr_report_t *r) {
  const train_t *v = s->state;
  char nothing[sizeof r->note] = "", settled[sizeof r->note];
  if (!stopped && !v->at.step) mr_nothing_came(s, IN_TRAIN, nothing, sizeof nothing);
  const char *why = *nothing ? nothing : stopped ? "stopped on request" : "finished";
  if (v->bad.code < 0) {
    snprintf(r->note, sizeof r->note, "stopped: %s", v->bad_note);
    r->bad_step = v->bad_step;
  } else if (!stopped && mr__train_has_settled(s, settled, sizeof settled)) {
    snprintf(r->note, sizeof r->note, "%s", settled);
  } else {
    snprintf(r->note, sizeof r->note, "%s", why);
  }
}

/* Makes the parameters whole where ranks have parts of them, while all ranks that are processes are
   at the same step.  Ranks that write slices of their shares keep their slots, and give the
   average, or the values, where an evaluation may follow, which reads them. */
static mr_err_t make_whole(mr_stage_t *s, bool evaluates) {
  const train_t *v = s->state;
  if (!keeps_shares(v))
    MR_TRY(fetch_params(s, mr_train_step_whole));
  else if (has_judged_shares(v) && evaluates)
    MR_TRY(fetch_params(s, mr_train_step_average));
  return mr__train_has_slices(v) ? mr__train_write_slices(s) : MR_OK;
}

/* Ends the run: test unless stopped, the last state, the final record. */
static mr_err_t train_step_finish(mr_stage_t *s) {
  const train_t *v = s->state;
  mr__agree_end(v->agree);
  MR_TRY(make_whole(s, true));
  bool stopped = train_step_stops(s) || v->bad.code < 0;
  if (!stopped) {
    mr_err_t e = train_step_evaluate(s, IN_TEST, MR_REPORT_TEST, NULL);
    if (e < 0) return e;
    stopped = e == MR_END;
  }
  MR_TRY(train_step_save(s, true));
  mr_buf_t *b;
  MR_TRY(mr__train_report_fresh(s, MR_REPORT_FINAL, &b));
  if (b) say_why(s, stopped, b->data);
  MR_TRY(mr__train_report_give(s, b));
  mr__agree_doing(v->agree, "ends the run after", v->at.step, MR_PACE_OPEN);
  return MR_END;
}

/* Passes a skipped step.  It counts, so that later steps are the same: their rate, masks and
   corrections follow from their number. */
static mr_err_t pass_step(mr_stage_t *s, const mr_buf_t *batch) {
  train_t *v = s->state;
  mr_buf_t *b;
  v->at.step++, v->epoch = v->at.epoch + 1;
  mr_stream_at_pass(&v->at.stream[IN_TRAIN], &s->in_spec[IN_TRAIN], batch);
  v->at.ledger = mr_ledger_step(v->at.ledger, v->at.step, NULL, NULL, 0, 0);
  MR_TRY(mr__train_report_fresh(s, MR_REPORT_STEP, &b));
  if (b) ((mr_report_t *)b->data)->skipped = true;
  MR_TRY(mr__train_report_give(s, b));
  if (batch->flags & MR_BUF_EPOCH_END) v->at.epoch = batch->epoch + 1, v->at.unvalidated = true;
  v->at.unvalidated |= mr__train_valid_due(s, v->at.step);
  return MR_OK;
}

void mr__train_flight_fini(mr__train_flight_t *f) {
  mr_train_batch_fini(&f->fields);
  mr_buf_unref(f->batch);
  f->batch = NULL;
}

/* Counts a finished step and reports its results. */
static mr_err_t train_step_count_step(mr_stage_t *s, const mr__train_flight_t *f,
                                      const mr_train_out_t *r) {
  train_t *v = s->state;
  const mr_buf_t *batch = f->batch;
  uint32_t bits;
  v->said = *r;
  memcpy(&bits, &r->loss, sizeof bits);
  if (v->in_parts) bits = 0; /* a loss whose last bits are of the mesh */
  v->at.step++, v->epoch = v->at.epoch + 1;
  v->at.images += batch->n;
  mr_stream_at_pass(&v->at.stream[IN_TRAIN], &s->in_spec[IN_TRAIN], batch);
  v->at.ledger = mr_ledger_step(v->at.ledger, v->at.step, batch->key, batch->draw, batch->n, bits);
  MR_TRY(mr__train_report_step(s, r, batch, (double)f->lr));
  if (f->watch && r->applied) {
    MR_TRY(fetch_params(s, mr_train_step_fetch));
    MR_TRY(mr__train_report_watched(s, batch));
  }
  if (batch->flags & MR_BUF_EPOCH_END) v->at.epoch = batch->epoch + 1, v->at.unvalidated = true;
  v->at.unvalidated |= mr__train_valid_due(s, v->at.step);
  return MR_OK;
}

/* Counts finished steps, in order; waits while more than `most` are in flight.  Ranks of several
   devices count the same steps at the same time, whichever device is the faster one.
   MR_END: one of them was not finite and ends the run. */
static mr_err_t count_steps(mr_stage_t *s, int64_t most) {
  train_t *v = s->state;
  mr_train_out_t r;
  mr_diag_t diag = {0};
  mr_err_t e = MR_OK;
  bool alike = v->agree && !v->on->backend->host;
  while (e == MR_OK && !(alike && v->begun - v->read <= most)) {
    e = mr_train_step_read(v->step, v->begun - v->read > most, &r, &diag);
    if (e == MR_END || e == MR_AGAIN) return MR_OK;
    if (e < 0) return mr_diag_prefix(s->diag, e, &diag, "step %" PRId64, v->at.step + 1);
    mr__train_flight_t *f = &v->flight[v->read++ % MR_TRAIN_RING];
    e = mr__train_redo(s, f, &r);
    if (e == MR_OK) e = mr__train_look_at(s, f, &r);
    if (e == MR_OK) e = train_step_count_step(s, f, &r);
    mr__train_flight_fini(f);
  }
  while (e == MR_END && v->read < v->begun)
    mr__train_flight_fini(&v->flight[v->read++ % MR_TRAIN_RING]);
  return e;
}

/* States that were asked for, in this process.  Relaxed, also where stages read it: it orders
   nothing, and a stage that sees it late saves one step later. */
static atomic_int asked_states;

void mr_train_ask_states(void) {
  atomic_fetch_add_explicit(&asked_states, 1, memory_order_relaxed);
}

int mr__train_asked(void) { return atomic_load_explicit(&asked_states, memory_order_relaxed); }

/* Emits the state that was asked for, or that is due by the clock, as a validation may be.  Where a
   validation is due it comes first, and the state after it. */
static mr_err_t save_now(mr_stage_t *s, int asked) {
  train_t *v = s->state;
  v->answered = asked;
  mr_err_t e = count_steps(s, 0);
  if (e == MR_END) return train_step_finish(s);
  v->at.unvalidated |= mr__train_valid_late(s);
  return e < 0 || v->at.unvalidated ? e : train_step_save(s, false);
}

static bool checkpoint_due(const train_t *v, int64_t step) {
  return v->wants || (v->checkpoint_every && step % v->checkpoint_every == 0);
}

/* What this rank asks the others for after the next step: by a signal to it, and by the clock of
   the rank that evaluates and gives states. */
static uint32_t rank_wants(const mr_stage_t *s, int asked) {
  const train_t *v = s->state;
  bool state = asked != v->answered || mr__train_state_late(s);
  return (state ? MR__WANTS_STATE : 0) | (mr__train_valid_late(s) ? MR__WANTS_VALID : 0);
}

/* Begins the step of this number.  Takes over batch. */
static mr_err_t begin_step(mr_stage_t *s, mr_buf_t *batch, int64_t step) {
  train_t *v = s->state;
  mr__train_flight_t *f = &v->flight[v->begun % MR_TRAIN_RING];
  *f = (mr__train_flight_t){.batch = batch,
                            .lr = mr_schedule_at(&v->rate, step - 1),
                            .watch = mr__train_watched(s, step)};
  if (f->watch) {
    mr_err_t fetched = fetch_params(s, mr_train_step_fetch);
    if (fetched < 0) return mr__train_flight_fini(f), fetched;
    mr_optim_t optim = mr__train_config(v, batch->n).optim;
    if (s->out_linked[OUT_METRICS] &&
        !mr_train_watch_before(&v->watch, &optim, f->lr, &v->params)) {
      mr__train_flight_fini(f);
      return mr_stage_no_memory(s, "the gradients of step %" PRId64, step);
    }
  }
  const mr_train_in_t in = {.step = step, .seed = v->at.seed, .lr = f->lr};
  mr__agree_doing(v->agree, "computes", step, MR_PACE_LIMITED);
  mr_err_t e =
      mr_train_batch_init(&f->fields, s, &s->in_spec[IN_TRAIN], &v->model.plan.loss, NULL, batch);
  if (e >= 0 && v->there)
    e = mr_train_check_labels(s, &s->in_spec[IN_TRAIN], &v->model.plan.loss, batch);
  mr_diag_t diag = {0};
  if (e >= 0) {
    e = mr_train_step_run(v->step, &v->params, f->fields.field, &in, &diag);
    mr_diag_prefix(s->diag, e, &diag, "%s%sstep %" PRId64, v->agree ? s->name : "",
                   v->agree ? ": " : "", step);
  }
  if (e < 0) return mr__train_flight_fini(f), e;
  v->begun++;
  return MR_OK;
}

/* Takes over batch.  Code that reads parameters, or runs between two steps, finds no step in
   flight. */
static mr_err_t train_on(mr_stage_t *s, mr_buf_t *batch) {
  train_t *v = s->state;
  int64_t step = v->at.step + (v->begun - v->read) + 1;
  bool ends = batch->flags & MR_BUF_EPOCH_END;
  bool alone =
      mr__train_watched(s, step) || v->profile.after != NULL || !batch->n ||
      !v->fixed_scale; /* a loss that is not finite then ends the run before it is counted */
  mr_err_t e = alone ? train_step_give_saved(s) : MR_OK;
  if (e == MR_OK && alone) e = count_steps(s, 0);
  if (e == MR_OK && !batch->n) e = pass_step(s, batch);
  if (e == MR_OK && !batch->n && v->wants & MR__WANTS_VALID) v->at.unvalidated = true;
  if (e == MR_OK && !batch->n && (v->at.unvalidated || checkpoint_due(v, step)))
    e = make_whole(s, v->at.unvalidated);
  if (e != MR_OK || !batch->n) return mr_buf_unref(batch), e;
  if (batch->n != s->in_spec[IN_TRAIN].batch) {
    e = mr_stage_fail(s, MR_ERR_SHAPE,
                      "a batch of %d records: want %" PRId64
                      "; give the batch stage drop-remainder",
                      batch->n, s->in_spec[IN_TRAIN].batch);
    return mr_buf_unref(batch), e;
  }
  e = begin_step(s, batch, step);
  mr_err_t saved = train_step_give_saved(s); /* while the device computes */
  MR_TRY(e);
  MR_TRY(saved);
  if (v->profile.after) v->profile.after(v->profile.arg, mr_train_step_profiled(v->step), step);
  bool last = v->total && step >= v->total;
  bool reads = ends || last || checkpoint_due(v, step) || mr__train_valid_due(s, step);
  e = count_steps(s, alone || reads ? 0 : MR_TRAIN_RING - 1);
  if (e == MR_OK && v->wants & MR__WANTS_VALID) v->at.unvalidated = true;
  return e == MR_OK && reads ? make_whole(s, v->at.unvalidated) : e;
}

/* A watched step fetches parameters, for which rank 0 waits until its checkpoint is written: it
   does so before the others' devices wait for it. */
static mr_err_t await_checkpoint_of_devices(mr_stage_t *s, int64_t step) {
  train_t *v = s->state;
  if (v->on->backend->host || !s->out_linked[OUT_STATE] || !mr__train_watched(s, step))
    return MR_OK;
  MR_TRY(train_step_give_saved(s));
  mr__agree_doing(v->agree, "waits for the checkpoint before", step, MR_PACE_TENSORS);
  return mr_all_back(s, OUT_STATE);
}

/* Has the ranks agree about this rank's next batch, or the end of its stream; a batch that is not
   worked on is released. */
static mr_err_t agree_on_batch(mr_stage_t *s, mr_err_t pulled, bool settled, mr_buf_t *batch) {
  train_t *v = s->state;
  int64_t step = v->at.step + (v->begun - v->read) + 1;
  mr_err_t e = await_checkpoint_of_devices(s, step);
  mr__agree_doing(v->agree, "is ready for", step, MR_PACE_LIMITED);
  int asked = mr__train_asked();
  uint32_t wants = rank_wants(s, asked);
  if (e == MR_OK)
    e = mr__agree(s, v->agree, step, pulled, settled, &v->said, batch, &wants, &v->agreed_stop);
  if (e == MR_OK) v->answered = asked, v->wants = wants;
  if (e != MR_OK && pulled == MR_OK) mr_buf_unref(batch);
  return e;
}

/* The next batch, of all ranks.  settled: the evaluations, of rank 0 alone, end the run, which the
   other ranks learn here.  MR_END: the run ends. */
static mr_err_t next_batch(mr_stage_t *s, bool settled, mr_buf_t **batch) {
  train_t *v = s->state;
  if (settled) return v->agree ? agree_on_batch(s, MR_END, true, NULL) : MR_END;
  mr__agree_doing(v->agree, "reads the batch of", v->at.step + (v->begun - v->read) + 1,
                  MR_PACE_LIMITED);
  mr_err_t e = *batch ? MR_OK : mr_pull_until_stop(s, IN_TRAIN, batch);
  return v->agree && (e == MR_OK || e == MR_END) ? agree_on_batch(s, e, false, *batch) : e;
}

mr_err_t mr__train_stage_step(mr_stage_t *s) {
  train_t *v = s->state;
  if (v->at.unvalidated && !mr_stopping(s)) {
    mr_err_t e = validate_model(s);
    if (e != MR_OK) return e == MR_END ? MR_OK : e; /* the next call ends the run */
    MR_TRY(train_step_save(s, false));
  }
  mr_buf_t *batch = NULL;
  bool over = train_step_stops(s) || (v->total && v->at.step >= v->total);
  bool settled = mr__train_has_settled(s, NULL, 0);
  if (!over && !settled && v->saving && !mr_take(s, IN_TRAIN, &batch, 1))
    MR_TRY(train_step_give_saved(s)); /* the next batch may be long in coming */
  mr_err_t e = over ? MR_END : next_batch(s, settled, &batch);
  if (e == MR_END) {
    MR_TRY(count_steps(s, 0));
    return train_step_finish(s);
  }
  if (e != MR_OK) return e;
  e = train_on(s, batch);
  if (e == MR_END) return train_step_finish(s);
  if (e < 0) return e;
  bool due = v->begun == v->read && checkpoint_due(v, v->at.step);
  v->wants = 0;
  if (due && !v->at.unvalidated) return train_step_save(s, false);
  int asked = mr__train_asked();
  return !v->agree && rank_wants(s, asked) ? save_now(s, asked) : MR_OK;
}

void mr_train_stage_profile(mr_stage_t *s, mr_train_profile_t p) {
  ((train_t *)s->state)->profile = p;
}

void mr__train_stage_report(mr_stage_t *s, char *text, size_t n) {
  const train_t *v = s->state;
  snprintf(text, n, "%" PRId64 " steps, ledger %016" PRIx64, v->at.step, v->at.ledger);
}
