/* Seeks a batch without making those before it: full batches and whole epochs are skipped
   arithmetically (mr_walk_pass), the rest one by one. */
#include "pipeline/records/batch_layout.h"
#include "pipeline/records/batch_walk_private.h"
#include "pipeline/stage_step.h"

/* The layout of batches: all full, or of epochs with `records` each. */
static mr_left_out_t batch_go_to_layout_of(const mr_batch_walk_t *t, int64_t records) {
  int64_t size = t->conf.size;
  return (mr_left_out_t){t->conf.skip, size, (records + size - 1) / size, records};
}

/* Counts n skipped batches of this layout. */
static void note_passed(mr_batch_walk_t *t, mr_left_out_t layout, int64_t n) {
  int64_t before = mr_left_out_before(&layout, t->number);
  t->number += n;
  t->kept += mr_left_out_before(&layout, t->number) - before;
}

/* Skips n batches, the parts in turn, if all are full; MR_END, with nothing changed, if not. */
static mr_err_t pass_full(mr_stage_t *s, mr_batch_walk_t *t, int64_t n) {
  int64_t parts = t->conf.parts, records;
  mr_err_t e = MR_OK;
  if (__builtin_mul_overflow(n, t->conf.size, &records)) return MR_END;
  for (int64_t i = 0; i < parts && e == MR_OK; i++) {
    int64_t due = n / parts + ((i + parts - t->part) % parts < n % parts);
    e = mr_walk_pass(s, mr_in_chain(s, 0), t->walk[i], due * t->conf.size);
  }
  for (int64_t i = 0; i < parts; i++) {
    if (e == MR_OK) mr__batch_note(t, i);
    if (e != MR_OK) mr_walk_load(t->walk[i], t->given + i * t->words_part);
  }
  if (e != MR_OK) return e;
  t->part = (t->part + n) % parts, t->records += records;
  note_passed(t, batch_go_to_layout_of(t, 0), n);
  return MR_OK;
}

/* True if batches end with their epoch. */
static bool in_epochs(const mr_stage_t *s, const mr_batch_walk_t *t) {
  return !t->conf.across && !s->in_spec[0].sequential;
}

/* Counts the records in the batches of each epoch; *records -1: unknown. */
static mr_err_t epoch_records(mr_stage_t *s, mr_batch_walk_t *t, int64_t *records) {
  mr_err_t e = mr_walk_epoch(s, mr_in_chain(s, 0), t->walk[0], records);
  if (e == MR_OK && *records > 0 && t->conf.drop) *records -= *records % t->conf.size;
  return e;
}

/* If batches end with their epoch and all epochs have equally many records, skips whole epochs of
   the n batches from the start, then full batches; *n is left. */
static mr_err_t pass_epochs(mr_stage_t *s, mr_batch_walk_t *t, int64_t *n) {
  const mr_spec_t *in = &s->in_spec[0];
  int64_t records, at, size = t->conf.size;
  mr_err_t e = epoch_records(s, t, &records);
  if (e != MR_OK || records < 0) return e;
  int64_t batches = records / size + (records % size != 0), epochs = batches ? *n / batches : 0;
  if (in->n_epochs && epochs > in->n_epochs) epochs = in->n_epochs;
  if (__builtin_mul_overflow(epochs, in->n_records, &at) || !mr_walk_load(t->walk[0], &at))
    return mr_stage_fail(s, MR_ERR_CONFIG, "batch %lld lies beyond position 2^62", (long long)*n);
  mr__batch_note(t, 0);
  t->records = epochs * records;
  note_passed(t, batch_go_to_layout_of(t, records), epochs * batches);
  *n -= epochs * batches;
  if (!*n || *n >= batches) return MR_OK;
  e = pass_full(s, t, *n);
  if (e == MR_OK) *n = 0;
  return e < 0 ? e : MR_OK;
}

/* Skips as many of n batches as are full; *n is left. */
static mr_err_t pass_most(mr_stage_t *s, mr_batch_walk_t *t, int64_t *n) {
  mr_err_t e = pass_full(s, t, *n);
  if (e == MR_OK) *n = 0;
  for (int64_t step = INT64_C(1) << 61; step && *n && e >= 0; step /= 2) {
    if (step >= *n || mr_stopping(s)) continue;
    e = pass_full(s, t, step);
    if (e == MR_OK) *n -= step;
  }
  return e < 0 ? e : MR_OK;
}

/* Skips n batches without making them; those left at the stream's end one by one.  They are few,
   unless the stream is longer but lies beyond position 2^62. */
static mr_err_t skip_batches(mr_stage_t *s, mr_batch_walk_t *t, int64_t n) {
  int64_t number = n;
  MR_TRY(in_epochs(s, t) ? pass_epochs(s, t, &n) : pass_most(s, t, &n));
  for (int some = 1024; n && !t->ahead.over; n--) {
    if (n > INT64_C(1) << 40 && !some--)
      return mr_stage_fail(s, MR_ERR_CONFIG, "batch %lld lies beyond position 2^62",
                           (long long)number);
    mr_err_t e = mr__batch_find(s, t, &t->ahead);
    if (e != MR_OK) return e;
  }
  return MR_OK;
}

/* Skips n batches from where the walk is; those of a stream with epochs one by one. */
static mr_err_t skip_further(mr_stage_t *s, mr_batch_walk_t *t, int64_t n) {
  if (!in_epochs(s, t)) MR_TRY(pass_most(s, t, &n));
  for (; n && !t->ahead.over; n--) {
    mr_err_t e = mr__batch_find(s, t, &t->ahead);
    if (e != MR_OK) return e;
  }
  return MR_OK;
}

static mr_err_t refuse_words(mr_stage_t *s, const mr_batch_walk_t *t, int n) {
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "the stream was left with a state of %d numbers, this one has %d", n,
                       t->words);
}

/* Seeks a number alone in a stream that a resume has changed. */
static mr_err_t continue_from_resume(mr_stage_t *s, mr_batch_walk_t *t,
                                     const mr_batch_resume_t *r) {
  int64_t n = s->start_number - r->number;
  if (n < 0)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting resume: with these settings the stream begins with step %lld, "
                         "and step %lld was asked for",
                         (long long)r->number + 1, (long long)s->start_number + 1);
  t->number = r->number, t->records = r->position;
  if (t->words > 1 && r->n_words != t->words) return refuse_words(s, t, r->n_words);
  MR_TRY(mr__batch_load(s, t, t->words == 1 ? &r->position : r->word));
  return skip_further(s, t, n);
}

/* Finds the number of the batch that holds a record, counted without skipped steps, or of an
   earlier batch. */
static mr_err_t batch_of(mr_stage_t *s, mr_batch_walk_t *t, int64_t record, int64_t *number) {
  int64_t each = 0, most = (INT64_C(1) << 62) / t->conf.size;
  if (in_epochs(s, t)) {
    mr_err_t e = epoch_records(s, t, &each);
    if (e != MR_OK || each < 0) return *number = 0, e;
  }
  mr_left_out_t layout = batch_go_to_layout_of(t, each);
  return *number = mr_left_out_batch(&layout, record, most), MR_OK;
}

/* Plans the batch that holds s->start_record, and makes it begin there. */
mr_err_t mr__batch_go_to_record(mr_stage_t *s, mr_batch_walk_t *t) {
  int64_t number;
  MR_TRY(batch_of(s, t, s->start_record, &number));
  mr_err_t e = skip_batches(s, t, number);
  while (e == MR_OK && t->kept <= s->start_record && !t->ahead.over)
    e = mr__batch_find(s, t, &t->ahead);
  t->cut = (int)(s->start_record - (t->kept - mr_picks_n(t->ahead.picks)));
  return e;
}

/* Given only a position, a state of several numbers is found by walking there from the start. */
mr_err_t mr__batch_go_to_start(mr_stage_t *s, mr_batch_walk_t *t) {
  if (!s->start_position && !s->n_start_words && t->conf.resume)
    return continue_from_resume(s, t, t->conf.resume);
  if (!s->start_position && !s->n_start_words) return skip_batches(s, t, s->start_number);
  t->number = s->start_number;
  if (t->words == 1) return mr__batch_load(s, t, &s->start_position);
  if (s->n_start_words) {
    if (s->n_start_words != t->words) return refuse_words(s, t, s->n_start_words);
    t->records = s->start_position;
    return mr__batch_load(s, t, s->start_word);
  }
  t->number = 0;
  mr_err_t e = skip_batches(s, t, s->start_position / t->conf.size);
  if (e != MR_OK) return e;
  while (t->records < s->start_position && !t->ahead.over) {
    if ((e = mr__batch_find(s, t, &t->ahead)) != MR_OK) return e;
  }
  if (t->records == s->start_position) return MR_OK;
  return mr_stage_fail(s, MR_ERR_CONFIG, "no batch of %lld starts after %lld records",
                       (long long)t->conf.size, (long long)s->start_position);
}
