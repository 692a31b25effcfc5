/* Batches found by a walk.  The next batch is planned before the current one is given, because only
   that shows whether the current one ends its epoch. */
#include "pipeline/records/batch_walk_private.h"

#include <stdlib.h>
#include <string.h>

#include "pipeline/stage_step.h"

int mr_batch_walk_words(const mr_spec_t *in, int parts) {
  return parts > 1 ? 1 + parts * in->n_words : in->n_words;
}

/* ---- state ---- */

void mr__batch_note(mr_batch_walk_t *t, int64_t part) {
  mr_walk_save(t->walk[part], t->given + part * t->words_part);
}

static void batch_walk_save(const mr_batch_walk_t *t, int64_t *word) {
  if (t->conf.parts > 1) *word++ = t->part;
  memcpy(word, t->given, (size_t)(t->conf.parts * t->words_part) * sizeof *word);
}

mr_err_t mr__batch_load(mr_stage_t *s, mr_batch_walk_t *t, const int64_t *word) {
  bool fits = true;
  if (t->conf.parts > 1) {
    fits = *word >= 0 && *word < t->conf.parts;
    t->part = fits ? *word : 0;
    word++;
  }
  for (int i = 0; i < t->conf.parts && fits; i++, word += t->words_part) {
    fits = mr_walk_load(t->walk[i], word);
    mr__batch_note(t, i);
  }
  if (fits) return MR_OK;
  return mr_stage_fail(s, MR_ERR_CONFIG, "a number of the state to resume from is out of range");
}

/* ---- finding the next batch ---- */

/* The position where the walk's current epoch of an indexable stream ends. */
static int64_t epoch_end(const mr_stage_t *s, const mr_batch_walk_t *t, int64_t *epoch) {
  const mr_spec_t *in = &s->in_spec[0];
  int64_t at;
  *epoch = 0;
  if (t->conf.across || in->sequential) return INT64_MAX;
  mr_walk_save(t->walk[0], &at);
  *epoch = at / in->n_records;
  return (*epoch + 1) * in->n_records;
}

enum { EMPTY_EPOCHS_MOST = 1 << 20 };

/* Fails if drop-remainder drops all records of each epoch.  Of three epoch ends in a row without a
   batch, the last two ended whole epochs. */
static mr_err_t check_short(mr_stage_t *s, const mr_batch_walk_t *t, int64_t ends) {
  bool endless = !s->in_spec[0].n_epochs;
  if (ends < 3 || (!endless && ends < EMPTY_EPOCHS_MOST)) return MR_OK;
  return mr_stage_fail(s, MR_ERR_DATA,
                       "setting size = %lld: an epoch has only %lld records, and drop-remainder "
                       "drops them; want a smaller batch or more records",
                       (long long)t->conf.size, (long long)t->short_of);
}

/* Collects up to a batch from one walk: MR_OK when it is full, else why it is not; MR_END with
 *more: the epoch has ended, the stream has not. */
static mr_err_t batch_walk_collect(mr_stage_t *s, mr_batch_walk_t *t, mr_walk_t *w, int64_t until,
                                   mr_picks_t *picks, bool *more) {
  mr_err_t e = MR_OK;
  mr_picks_clear(picks);
  *more = false;
  while (mr_picks_n(picks) < t->conf.size && e == MR_OK)
    e = mr_walk_next(s, mr_in_chain(s, 0), w, until, picks, more);
  return e;
}

static mr_err_t find_batch(mr_stage_t *s, mr_batch_walk_t *t, mr__found_batch_t *p) {
  int64_t epoch_ends = 0;
  for (int ended = 0; ended < t->conf.parts;) {
    mr_err_t ending = mr_stopping(s) ? MR_END : mr_idle(s); /* many epochs may be empty */
    if (ending != MR_AGAIN) return ending;
    mr_walk_t *w = t->walk[t->part];
    bool more;
    mr_err_t e = batch_walk_collect(s, t, w, epoch_end(s, t, &p->epoch), p->picks, &more);
    if (e < 0) return e;
    if (e == MR_END && !more && mr_stopping(s)) return MR_END; /* the stream has not ended */
    bool whole = mr_picks_n(p->picks) && (e == MR_OK || !t->conf.drop);
    if (whole) mr__batch_note(t, t->part);
    t->part = (t->part + 1) % t->conf.parts;
    ended = e == MR_END && !more ? ended + 1 : 0;
    if (whole) return MR_OK;
    t->short_of = mr_picks_n(p->picks);
    if (more) MR_TRY(check_short(s, t, ++epoch_ends));
  }
  mr_picks_clear(p->picks);
  p->over = true;
  return MR_OK;
}

static bool is_left_out(const mr_batch_walk_t *t, int64_t number) {
  return mr_ranges_has(t->conf.skip, (uint64_t)number + 1);
}

mr_err_t mr__batch_find(mr_stage_t *s, mr_batch_walk_t *t, mr__found_batch_t *p) {
  p->over = false;
  mr_err_t e = find_batch(s, t, p);
  if (e != MR_OK) return e;
  batch_walk_save(t, p->word);
  p->number = t->number++;
  t->records += mr_picks_n(p->picks);
  if (!is_left_out(t, p->number)) t->kept += mr_picks_n(p->picks);
  p->position = t->words == 1 ? p->word[0] : t->records;
  return MR_OK;
}

/* ---- life ---- */

static bool make_found_batch(const mr_chain_t *c, const mr_batch_walk_t *t, mr__found_batch_t *p) {
  p->picks = mr_picks_create(c, (int)t->conf.size);
  p->word = calloc((size_t)t->words + 1, sizeof *p->word);
  return p->picks && p->word;
}

static void free_found_batch(mr__found_batch_t *p) {
  mr_picks_destroy(p->picks);
  free(p->word);
}

static bool batch_walk_make(mr_stage_t *s, mr_batch_walk_t *t) {
  mr_chain_t *c = mr_in_chain(s, 0);
  size_t n = (size_t)s->n_workers;
  t->words_part = s->in_spec[0].n_words;
  t->words = mr_batch_walk_words(&s->in_spec[0], t->conf.parts);
  t->walk = calloc((size_t)t->conf.parts, sizeof *t->walk);
  t->mine = calloc(n, sizeof *t->mine);
  t->next = calloc(n, sizeof *t->next);
  t->given = calloc((size_t)(t->conf.parts * t->words_part) + 1, sizeof *t->given);
  if (!t->walk || !t->mine || !t->next || !t->given || !make_found_batch(c, t, &t->ahead))
    return false;
  for (int i = 0; i < t->conf.parts; i++) {
    if (!(t->walk[i] = mr_walk_create(c, i, t->conf.parts))) return false;
    mr__batch_note(t, i);
  }
  for (; t->n_workers < s->n_workers; t->n_workers++) {
    t->next[t->n_workers] = t->n_workers;
    if (!make_found_batch(c, t, &t->mine[t->n_workers])) return t->n_workers++, false;
  }
  return true;
}

mr_err_t mr_batch_walk_open(mr_stage_t *s, mr_batch_conf_t conf, mr_batch_walk_t **out) {
  mr_batch_walk_t *t = *out = aligned_alloc(64, (sizeof *t + 63) / 64 * 64);
  if (!t) return mr_stage_no_memory(s, "its state");
  memset(t, 0, sizeof *t);
  t->conf = conf;
  return batch_walk_make(s, t) ? MR_OK : mr_stage_no_memory(s, "a walk");
}

void mr_batch_walk_close(mr_batch_walk_t *t) {
  if (!t) return;
  for (int i = 0; t->walk && i < t->conf.parts; i++) mr_walk_destroy(t->walk[i]);
  for (int i = 0; i < t->n_workers; i++) free_found_batch(&t->mine[i]);
  free_found_batch(&t->ahead);
  free(t->walk), free(t->mine), free(t->next), free(t->given);
  free(t);
}

/* ---- giving ---- */

/* Reports that a stream, read from its start, has ended without a batch. */
static void batch_walk_say_nothing(mr_stage_t *s, const mr_batch_walk_t *t) {
  if (t->records || s->start_position || s->start_number || s->start_record) return;
  if (t->short_of > 0)
    mr_gave_nothing(s, "%lld records are fewer than a batch of %lld, and drop-remainder is set",
                    (long long)t->short_of, (long long)t->conf.size);
  else
    mr_gave_nothing(s, "the stages before it removed every record");
}

/* A worker's turn: takes the batch that was planned ahead, and plans the next one. */
static mr_err_t take_turn(mr_stage_t *s, mr_batch_walk_t *t, mr__found_batch_t *own, bool *last) {
  /* relaxed: mr_turn_wait has seen this number, and only this worker passes it on. */
  if (atomic_load_explicit(&t->turn, memory_order_relaxed) == 0) {
    mr_err_t e = s->start_record ? mr__batch_go_to_record(s, t) : mr__batch_go_to_start(s, t);
    if (e >= 0 && !s->start_record) e = mr__batch_find(s, t, &t->ahead);
    if (e != MR_OK) return e;
  }
  mr__found_batch_t kept = *own;
  *own = t->ahead, t->ahead = kept;
  if (own->over) batch_walk_say_nothing(s, t);
  if (own->over) return t->ahead.over = true, MR_OK;
  mr_err_t e = mr__batch_find(s, t, &t->ahead);
  *last = t->ahead.over || t->ahead.epoch != own->epoch;
  return e;
}

static mr_err_t make_batch(mr_stage_t *s, mr_batch_walk_t *t, const mr__found_batch_t *p, bool last,
                           mr_buf_t *buf) {
  const mr_spec_t *spec = &s->out_spec[0];
  int from = 0, n = mr_picks_n(p->picks);
  mr_host_slice(&t->conf.host, &from, &n);
  if (t->next[s->worker] == 0) from += t->cut, n -= t->cut; /* from a whole batch */
  if (is_left_out(t, p->number)) n = 0;
  buf->n = n, buf->first = from;
  buf->epoch = p->epoch;
  buf->flags = last ? MR_BUF_EPOCH_END : 0;
  buf->position = p->position;
  if (spec->n_words) memcpy(buf->word, p->word, (size_t)spec->n_words * sizeof *p->word);
  MR_TRY(mr_picks_fill(s, mr_in_chain(s, 0), p->picks, from, n, buf));
  buf->size = mr_buf_bytes(spec, buf, n);
  return MR_OK;
}

mr_err_t mr_batch_walk_step(mr_stage_t *s, mr_batch_walk_t *t) {
  mr__found_batch_t *own = &t->mine[s->worker];
  mr_buf_t *buf = NULL;
  bool last = false;
  if (mr_stopping(s)) return MR_END;
  mr_err_t e = mr_turn_wait(s, &t->turn, t->next[s->worker]);
  if (e != MR_OK) return e;
  e = take_turn(s, t, own, &last);
  if (e != MR_OK) return e;
  mr_turn_pass(s, &t->turn);
  if (own->over) return MR_END;
  e = mr_fresh(s, 0, &buf);
  if (e != MR_OK) return e;
  e = make_batch(s, t, own, last, buf);
  if (e < 0) return mr_buf_unref(buf), e;
  t->next[s->worker] += s->n_workers;
  return mr_push(s, 0, buf);
}
