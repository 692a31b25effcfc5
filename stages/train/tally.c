/* Sums of an evaluation: losses, metrics and the confusion matrix over the records of a stream.
   Several runs are in flight so that a device never waits for the host; results are counted in the
   order of the batches, so the sums do not depend on timing. */
#include "stages/train/tally.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/pace.h"
#include "pipeline/care.h"
#include "pipeline/stage_step.h"
#include "stages/train/fields.h"

/* A batch whose run has not been read: its buffer and fields must stay until then. */
typedef struct flight {
  mr_buf_t *b;
  mr_train_batch_t fields;
} flight_t;

typedef struct evaluation {
  mr_stage_t *s;
  int port;
  mr_eval_step_t *step;
  const mr_params_t *params;
  mr_tally_t *tally;
  flight_t flight[MR_TRAIN_RING];
  int64_t begun, read;
} evaluation_t;

/* The field with the true classes; NULL without one. */
static const int32_t *truth_of(const mr_tally_t *t, const flight_t *f) {
  for (int i = 0; i < t->loss->n_fields; i++)
    if (t->loss->classes && t->loss->field[i].classes == t->loss->classes)
      return f->fields.field[i];
  return NULL;
}

/* ---- the confusion matrix, of which most cells are 0 where there are many classes ---- */

/* The cell of a pair, or the free one where it belongs; room is a power of two and not full. */
static mr_confused_t *tally_cell(const mr_tally_t *t, int32_t truth, int32_t guess) {
  uint64_t pair = (uint64_t)(uint32_t)truth << 32 | (uint32_t)guess;
  size_t at = (size_t)((pair * UINT64_C(0x9e3779b97f4a7c15)) >> 32);
  for (;; at++) {
    mr_confused_t *c = &t->confused[at & (t->room - 1)];
    if (!c->count || (c->truth == truth && c->guess == guess)) return c;
  }
}

static bool tally_grow(mr_tally_t *t) {
  mr_tally_t more = {.room = t->room ? 2 * t->room : 256};
  if (!(more.confused = calloc(more.room, sizeof *more.confused))) return false;
  for (size_t i = 0; i < t->room; i++) {
    const mr_confused_t *c = &t->confused[i];
    if (c->count) *tally_cell(&more, c->truth, c->guess) = *c;
  }
  free(t->confused);
  t->confused = more.confused, t->room = more.room;
  return true;
}

static bool tally_confuse(mr_tally_t *t, int32_t truth, int32_t guess) {
  if (2 * t->n_confused >= t->room && !tally_grow(t)) return false;
  mr_confused_t *c = tally_cell(t, truth, guess);
  if (!c->count) *c = (mr_confused_t){truth, guess, 0}, t->n_confused++;
  c->count++;
  return true;
}

uint32_t mr_tally_confused(const mr_tally_t *t, int32_t truth, int32_t guess) {
  return t->room ? tally_cell(t, truth, guess)->count : 0;
}

void mr_tally_fini(mr_tally_t *t) {
  free(t->confused);
  t->confused = NULL, t->n_confused = t->room = 0;
}

/* ---- counting ---- */

static mr_err_t tally_count(evaluation_t *v, const flight_t *f, const mr_eval_rows_t *r) {
  mr_tally_t *t = v->tally;
  const int32_t *truth = truth_of(t, f);
  for (int i = 0; i < f->b->n; i++) {
    if (r->counts[i] == 0) continue;
    t->records++;
    t->losses += (double)r->losses[i];
    if (!isfinite(r->losses[i]) && t->odd++ == 0) t->first_odd = f->b->key[i] & ~MR_KEY_SKIPPED;
    for (int k = 0; k < t->loss->n_metrics; k++) t->metric[k] += (double)r->metric[k][i];
    if (!t->n_classes || !truth) continue;
    int guess = (int)r->guess[i];
    if (truth[i] < 0 || truth[i] >= t->n_classes || guess < 0 || guess >= t->n_classes)
      continue; /* a loss of one's own may count records without a label, or guess no class */
    if (!tally_confuse(t, truth[i], guess))
      return mr_stage_no_memory(v->s, "the confusion matrix of %lld classes",
                                (long long)t->n_classes);
    if (guess != truth[i] && t->wrong) t->wrong(v->s, t, v->port, f->b, i, truth[i], guess);
  }
  return MR_OK;
}

static void tally_release(evaluation_t *v) {
  flight_t *f = &v->flight[v->read++ % MR_TRAIN_RING];
  mr_train_batch_fini(&f->fields);
  mr_buf_unref(f->b);
}

/* Counts finished runs; waits while more than `most` are in flight.  MR_OK, or the failure of the
   device. */
static mr_err_t read_rows(evaluation_t *v, int64_t most) {
  mr_eval_rows_t rows;
  mr_err_t e;
  while ((e = mr_eval_step_read(v->step, v->begun - v->read > most, &rows, v->s->diag)) == MR_OK) {
    e = tally_count(v, &v->flight[v->read % MR_TRAIN_RING], &rows);
    tally_release(v);
    if (e < 0) return e;
  }
  return e < 0 ? e : MR_OK;
}

/* Evaluates a batch; takes over b. */
static mr_err_t evaluate_batch(evaluation_t *v, mr_buf_t *b) {
  flight_t *f = &v->flight[v->begun % MR_TRAIN_RING];
  const mr_spec_t *spec = &v->s->in_spec[v->port];
  mr_err_t e =
      b->n ? mr_train_batch_init(&f->fields, v->s, spec, v->tally->loss, v->tally->aligned, b)
           : MR_OK;
  if (e >= 0 && b->n) e = mr_eval_step_run(v->step, v->params, f->fields.field, v->s->diag);
  if (e >= 0 && b->n) {
    f->b = b, v->begun++;
    return read_rows(v, MR_TRAIN_RING - 1);
  }
  mr_train_batch_fini(&f->fields);
  mr_buf_unref(b);
  return e;
}

static mr_err_t tally_evaluate(evaluation_t *v) {
  mr_stage_t *s = v->s;
  const int64_t of = s->in_spec[v->port].n_batches;
  int64_t at = 0;
  for (bool last = false; !last;) {
    mr_buf_t *b = NULL;
    mr_pace_beat(MR_PACE_BATCHES, ++at, of);
    mr_err_t e = mr_pull_until_stop(s, v->port, &b);
    mr_pace_beat(MR_PACE_BATCHES, at, of);
    v->tally->stopped = e == MR_END && mr_stopping(s);
    if (v->tally->stopped) return MR_END;
    if (e == MR_END) MR_TRY(read_rows(v, 0));
    if (e == MR_END && v->tally->records) return MR_OK;
    if (e != MR_OK) return e;
    last = b->flags & MR_BUF_EPOCH_END;
    mr_stream_at_pass(&v->tally->at, &s->in_spec[v->port], b);
    MR_TRY(evaluate_batch(v, b));
  }
  return MR_OK;
}

/* Sums over such records say nothing, and guesses of scores that are no numbers are of class 0. */
static void notice_odd(const evaluation_t *v) {
  const mr_tally_t *t = v->tally;
  if (!t->odd) return;
  mr_notice(
      "%s: the loss of %" PRId64 " of %" PRId64 " records is not finite, first of record %" PRIu64
      ": the weights, or the records' values, are not numbers that the model can compute with, "
      "and their guesses mean nothing",
      v->s->name, t->odd, t->records, t->first_odd);
}

mr_err_t mr_train_evaluate(mr_stage_t *s, int port, mr_eval_step_t *step, const mr_params_t *params,
                           mr_tally_t *tally) {
  evaluation_t v = {.s = s, .port = port, .step = step, .params = params, .tally = tally};
  tally->n_classes = tally->loss->classes;
  mr_err_t e = tally_evaluate(&v);
  mr_err_t read = e < 0 ? e : read_rows(&v, 0);
  if (e < 0) (void)read_rows(&v, 0); /* e is the failure to tell */
  while (v.read < v.begun) tally_release(&v);
  if (read == MR_OK) notice_odd(&v);
  return read < 0 ? read : e;
}

mr_err_t mr_tally_report(const mr_tally_t *tally, mr_report_t *r) {
  double records = tally->records ? (double)tally->records : 1;
  size_t n = 0;
  mr_report_add(r, MR_METRIC_OWN(LOSS), tally->losses / records);
  for (int i = 0; i < tally->loss->n_metrics; i++)
    mr_report_add(r, tally->loss->metric[i], tally->metric[i] / records);
  mr_report_add(r, MR_METRIC_OWN(RECORDS), (double)tally->records);
  if (!tally->n_classes) return MR_OK;
  mr_confused_t *cell = malloc((tally->n_confused + 1) * sizeof *cell);
  if (!cell) return MR_ERR_NOMEM;
  for (size_t i = 0; i < tally->room; i++)
    if (tally->confused[i].count) cell[n++] = tally->confused[i];
  mr_report_confuse(r, tally->n_classes, cell, n);
  free(cell);
  return MR_OK;
}

void mr_tally_judged(const mr_tally_t *tally, const char *input, char text[MR_JUDGED_TEXT]) {
  double records = (double)tally->records;
  if (!tally->records) return;
  mr_judged_add(input, MR_METRIC_OWN(LOSS), tally->losses / records, text);
  for (int i = 0; i < tally->loss->n_metrics; i++)
    mr_judged_add(input, tally->loss->metric[i], tally->metric[i] / records, text);
}

void mr_train_metrics_list(mr_train_metrics_t *m, const mr_loss_t *loss, const mr_metric_id_t *own,
                           size_t n) {
  size_t at = 0;
  m->def[at++] = MR_METRIC_OWN(LOSS);
  for (int i = 0; i < loss->n_metrics; i++) m->def[at++] = loss->metric[i];
  for (size_t i = 0; i < n; i++) m->def[at++] = &mr_metric_table[own[i]];
  m->list = (mr_metric_list_t){.n = at, .def = m->def};
}
