/* Skips records of a walk without making them.

   Without holes this is arithmetic.  If a filter decides by what the source says of a record
   (.of_record), each period of the stream before it (pipeline/records/period.c) keeps equally many
   records: one period is walked and counted, whole ones are skipped, and the last one is walked
   again. Everything else is walked. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/records/walk_private.h"

static mr_err_t skip_records(mr_walk_t *w, mr__walking_t *x, int64_t n);

/* ---- record by record ---- */

static mr_err_t pull_all(mr_walk_t *w, mr__walking_t *x, int64_t n) {
  size_t from = x->prog->n;
  mr_err_t e = MR_OK;
  for (int64_t i = 0; i < n && e == MR_OK; i++) {
    e = mr__walk_pull(w, x);
    x->prog->n = from;
    if (e == MR_OK && (i + 1) % MR__LOOK_UP_EVERY == 0) e = mr__walk_ended(x);
  }
  return e;
}

/* ---- over positions ---- */

/* Skips n positions, holes or not. */
static mr_err_t skip_positions(mr_walk_t *w, mr__walking_t *x, int64_t n) {
  int64_t position, end = mr__walk_end(x->c, w), most = (INT64_C(1) << 62) / w->stride;
  assert(n > 0);
  if (n > most - w->word[0]) return MR_END;
  position = w->offset + (w->word[0] + n - 1) * w->stride; /* position of the last one */
  if (position < 0 || position >= end) return MR_END;
  w->word[0] += n;
  return MR_OK;
}

/* ---- over what a filter keeps ---- */

/* Something inspected piece by piece: the positions of an indexable branch with holes, or the
   records before a filter. */
typedef struct sieve {
  mr_walk_t *w, *at; /* at: over the positions that show where a period begins */
  mr__walking_t *x;
  int64_t period;  /* pieces; 0: unknown */
  int64_t looked;  /* pieces so far */
  int64_t dropped; /* since the last piece that was kept */
} sieve_t;

/* The walk over positions whose every position is one record of w; NULL without one. */
static mr_walk_t *positions_of(mr_walk_t *w, const mr_chain_t *c) {
  while (!w->at) {
    const mr__branch_t *b = &c->branch[w->branch];
    bool one_each = b->kind == MR__MAP || (b->kind == MR__NEXT && b->s.def->walk->one_each);
    if (!one_each || w->n_below != 1) return NULL;
    w = w->below[0];
  }
  return w;
}

static int64_t walk_skip_common_divisor(int64_t a, int64_t b) {
  return b ? walk_skip_common_divisor(b, a % b) : a;
}

static sieve_t sieve_of(mr_walk_t *w, mr__walking_t *x) {
  sieve_t v = {.w = w, .x = x, .at = w->at ? w : positions_of(w->below[0], x->c)};
  bool plain = w->at || mr__is_of_record(x->c, w->branch);
  if (!v.at || !plain || (!w->at && mr__branch_spec(&x->c->branch[v.at->branch])->holes)) return v;
  mr_period_t p = mr__period(x->c, v.at->branch);
  if (v.at->stride == 1)
    v.period = p.n;
  else if (p.ordered) /* a part's positions in the smallest whole number of periods */
    v.period = p.n / walk_skip_common_divisor(p.n, v.at->stride);
  return v;
}

/* Inspects one piece: MR_OK, and *kept says whether it is kept.  MR_END as mr__walk_pull. */
static mr_err_t walk_skip_look(sieve_t *v, bool *kept) {
  mr_walk_t *w = v->w;
  mr__walking_t *x = v->x;
  size_t from = x->prog->n;
  mr_err_t e = MR_OK;
  if (++v->looked % MR__LOOK_UP_EVERY == 0 && (e = mr__walk_ended(x)) != MR_OK) return e;
  if (w->at) {
    int64_t position = w->offset + w->word[0] * w->stride;
    if (position >= mr__walk_end(x->c, w)) return MR_END;
    w->word[0]++, w->seen++;
    bool hole;
    e = mr__locate(x->c, w->branch, position, x->prog, &hole);
    *kept = !hole;
    if (e == MR_OK && *kept) w->holes = 0;
  } else {
    e = mr__walk_pull(w->below[0], x);
    if (e == MR_OK) e = mr__kept(x->c, w->branch, x->prog, from, kept);
  }
  x->prog->n = from;
  if (e != MR_OK) return e;
  if (*kept) return v->dropped = 0, MR_OK;
  v->dropped++;
  return w->at ? mr__walk_hole(w, x, v->dropped) : mr__walk_dropped(w, x, v->dropped);
}

/* Inspects pieces until *n are kept or, with `most` above 0, `most` have been inspected. */
static mr_err_t look_on(sieve_t *v, int64_t *n, int64_t most) {
  for (int64_t i = 0; *n && (!most || i < most); i++) {
    bool kept;
    mr_err_t e = walk_skip_look(v, &kept);
    if (e != MR_OK) return e;
    *n -= kept;
  }
  return MR_OK;
}

static mr_err_t skip_sieved(mr_walk_t *w, mr__walking_t *x, int64_t n) {
  sieve_t v = sieve_of(w, x);
  if (!v.period) return look_on(&v, &n, 0);
  int64_t into = v.at->word[0] % v.period, before, pieces;
  if (into) MR_TRY(look_on(&v, &n, v.period - into));
  before = n;
  mr_err_t e = look_on(&v, &n, v.period);
  assert(before - n <= v.period); /* a piece keeps at most one record */
  int64_t each = before - n,
          whole = each && n ? (n - 1) / each : 0; /* the last period is inspected */
  if (e != MR_OK || !n) return e;
  if (__builtin_mul_overflow(whole, v.period, &pieces)) return MR_END;
  if (whole) e = w->at ? skip_positions(w, x, pieces) : skip_records(w->below[0], x, pieces);
  n -= whole * each;
  assert(n > 0);
  return e == MR_OK ? look_on(&v, &n, 0) : e;
}

/* ---- any walk ---- */

/* MR_OK; or MR_END, and the walk's position is unspecified. */
static mr_err_t skip_records(mr_walk_t *w, mr__walking_t *x, int64_t n) {
  mr__branch_t *b = &x->c->branch[w->branch];
  mr_err_t e = MR_OK;
  w->x = x;
  if (!n) return MR_OK;
  if (w->at) return (mr__branch_spec(b)->holes ? skip_sieved : skip_positions)(w, x, n);
  if (b->kind == MR__KEEP) return skip_sieved(w, x, n);
  if (b->kind == MR__NEXT)
    return b->s.def->walk->skip ? b->s.def->walk->skip(&b->s, w, n) : pull_all(w, x, n);
  for (int i = 0; i < w->n_below && e == MR_OK; i++) e = skip_records(w->below[i], x, n);
  return e;
}

/* The greatest power of two below n, for n > 1; else 0. */
static int64_t power_below(int64_t n) {
  return n > 1 ? INT64_C(1) << (63 - __builtin_clzll((uint64_t)n - 1)) : 0;
}

/* Skips as many of n records as there are: the greatest power of two that fits, then the next one,
   and so on.  If there are fewer, the walk ends as if one more record had been searched for. */
static mr_err_t skip_most(mr_walk_t *w, mr__walking_t *x, int64_t n, int64_t *done) {
  int64_t *kept = malloc(((size_t)mr__walk_words(w) + 1) * sizeof *kept), step = n;
  mr_err_t e = kept ? MR_OK : mr_no_memory(x->s->diag, "a walk");
  *done = 0;
  while (step && *done < n && e >= 0) { /* after n itself has failed, fewer than 2 * step are
                                           left */
    mr_walk_save(w, kept);
    e = skip_records(w, x, step);
    if (e == MR_OK) *done += step;
    if (e == MR_END) mr_walk_load(w, kept);
    if (e == MR_END && mr__walk_ended(x) != MR_OK) break;
    step = step == n ? power_below(n) : step / 2;
  }
  assert(*done <= n);
  if (*done < n && e >= 0) {
    size_t from = x->prog->n;
    e = mr__walk_pull(w, x);
    x->prog->n = from;
  }
  free(kept);
  return e < 0 ? e : MR_OK;
}

mr_err_t mr_walk_pass(mr_stage_t *s, mr_chain_t *c, mr_walk_t *w, int64_t n) {
  mr__walking_t x = {s, c, INT64_MAX, &c->prog[0], false};
  c->prog[0].n = 0;
  mr_err_t e = skip_records(w, &x, n);
  w->x = NULL;
  return e;
}

/* Counts the first epoch, or a period of it. */
mr_err_t mr_walk_epoch(mr_stage_t *s, mr_chain_t *c, mr_walk_t *w, int64_t *records) {
  mr__walking_t x = {s, c, INT64_MAX, &c->prog[0], false};
  int64_t n = mr__branch_spec(&c->branch[w->branch])->n_records, kept = w->word[0];
  int64_t period = mr__period(c, w->branch).n, before = INT64_MAX, left = before;
  if (!w->at || !period || n % period) return *records = -1, MR_OK;
  sieve_t v = {.w = w, .x = &x};
  c->prog[0].n = 0, w->word[0] = 0, w->holes = 0;
  mr_err_t e = look_on(&v, &left, period);
  w->word[0] = kept, w->holes = 0;
  *records = (before - left) * (n / period);
  return e;
}

/* ---- calls for skip ---- */

mr_err_t mr_walk_skip(mr_walk_t *w, int i, int64_t n) { return skip_records(w->below[i], w->x, n); }

mr_err_t mr_walk_skip_any(mr_walk_t *w, int i, int64_t n) {
  mr_walk_t *below = w->below[i];
  if (!below->at || !n) return skip_records(below, w->x, n);
  return skip_positions(below, w->x, n);
}

mr_err_t mr_walk_skip_most(mr_walk_t *w, int i, int64_t n, int64_t *done) {
  return skip_most(w->below[i], w->x, n, done);
}

mr_err_t mr_walk_left(mr_walk_t *w, int i, int64_t most, int64_t *left) {
  mr_walk_t *below = w->below[i];
  int64_t *kept = malloc(((size_t)mr__walk_words(below) + 1) * sizeof *kept);
  if (!kept) return mr_no_memory(w->x->s->diag, "a walk");
  mr_walk_save(below, kept);
  mr_err_t e = skip_most(below, w->x, most, left);
  mr_walk_load(below, kept);
  free(kept);
  return e;
}

mr_err_t mr_walk_next_all(mr_walk_t *w, int64_t n) { return pull_all(w, w->x, n); }

void mr_walk_let_go(mr_walk_t *w) {
  if (w->n_held >= 0) mr_walk_load(w->below[0], w->start);
  w->n_held = -1;
}
