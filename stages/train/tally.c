/* Sums of an evaluation: losses, metrics and the confusion matrix over the records of a stream.
   Several runs are in flight so that a device never waits for the host; results are counted in the
   order of the batches, so the sums do not depend on timing. */
#include "stages/train/tally.h"

#include <string.h>

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

static void tally_count(evaluation_t *v, const flight_t *f, const mr_eval_rows_t *r) {
  mr_tally_t *t = v->tally;
  const int32_t *truth = truth_of(t, f);
  for (int i = 0; i < f->b->n; i++) {
    if (r->counts[i] == 0) continue;
    t->records++;
    t->losses += (double)r->losses[i];
    for (int k = 0; k < t->loss->n_metrics; k++) t->metric[k] += (double)r->metric[k][i];
    if (!t->n_classes || !truth) continue;
    int guess = (int)r->guess[i];
    if (truth[i] < 0 || truth[i] >= t->n_classes || guess < 0 || guess >= t->n_classes)
      continue; /* a loss of one's own may count records without a label, or guess no class */
    t->confusion[truth[i] * t->n_classes + guess]++;
    if (guess != truth[i] && t->wrong) t->wrong(v->s, t, v->port, f->b, i, guess);
  }
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
    tally_count(v, &v->flight[v->read % MR_TRAIN_RING], &rows);
    tally_release(v);
  }
  return e < 0 ? e : MR_OK;
}

/* Evaluates a batch; takes over b. */
static mr_err_t evaluate_batch(evaluation_t *v, mr_buf_t *b) {
  flight_t *f = &v->flight[v->begun % MR_TRAIN_RING];
  const mr_spec_t *spec = &v->s->in_spec[v->port];
  mr_err_t e = b->n ? mr_train_batch_init(&f->fields, v->s, spec, v->tally->loss, b) : MR_OK;
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
  for (bool last = false; !last;) {
    mr_buf_t *b = NULL;
    mr_err_t e = mr_stopping(s) ? MR_END : mr_pull(s, v->port, &b);
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

mr_err_t mr_train_evaluate(mr_stage_t *s, int port, mr_eval_step_t *step, const mr_params_t *params,
                           mr_tally_t *tally) {
  evaluation_t v = {.s = s, .port = port, .step = step, .params = params, .tally = tally};
  int64_t classes = tally->loss->classes;
  tally->n_classes =
      classes <= MR_METRICS_CLASSES ? (int)classes : 0; /* larger matrices are unreadable */
  mr_err_t e = tally_evaluate(&v);
  mr_err_t read = e < 0 ? e : read_rows(&v, 0);
  if (e < 0) (void)read_rows(&v, 0); /* e is the failure to tell */
  while (v.read < v.begun) tally_release(&v);
  return read < 0 ? read : e;
}

void mr_tally_metrics(const mr_tally_t *tally, mr_metrics_t *r) {
  double n = tally->records ? (double)tally->records : 1;
  mr_metrics_add(r, "loss", tally->losses / n);
  for (int i = 0; i < tally->loss->n_metrics; i++)
    mr_metrics_add(r, tally->loss->metric[i], tally->metric[i] / n);
  mr_metrics_add(r, "records", (double)tally->records);
  if (!tally->n_classes) return;
  r->n_classes = tally->n_classes;
  memcpy(r->confusion, tally->confusion, sizeof r->confusion);
}
