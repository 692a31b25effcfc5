/* Walks: the records of a chain one after the other, without the holes.

   There is a walk for each sequential branch, and one for each indexable branch that a sequential
   one reads; the latter hold one number, how many positions they have passed.  All numbers together
   are the state of the walk. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/records/walk_private.h"
#include "pipeline/stage_step.h"

/* ---- life ---- */

void mr_walk_destroy(mr_walk_t *w) {
  if (!w) return;
  for (int i = 0; i < w->n_below; i++) mr_walk_destroy(w->below[i]);
  free(w->below), free(w->word), free(w->start), free(w->held.op), free(w->held_at);
  free(w);
}

static mr_walk_t *walk_create(const mr_chain_t *c, int branch, int64_t offset, int64_t stride);

/* The number of inputs that this part gets when stride parts take them in turn. */
static int count_dealt(const mr_walk_t *w, int n_in) {
  return w->offset < n_in ? (int)((n_in - 1 - w->offset) / w->stride) + 1 : 0;
}

static bool create_below(const mr_chain_t *c, mr_walk_t *w) {
  const mr__branch_t *b = &c->branch[w->branch];
  bool deals = b->kind == MR__NEXT && b->s.def->walk->deals;
  int parts = b->kind == MR__NEXT && b->s.def->walk->n_walks ? b->s.def->walk->n_walks(&b->s) : 0;
  int n = parts ? parts : deals ? count_dealt(w, b->n_in) : b->n_in;
  w->below = calloc((size_t)n + 1, sizeof *w->below);
  if (!w->below) return false;
  for (; w->n_below < n; w->n_below++) {
    int i = w->n_below;
    mr_walk_t *below = parts
                           ? walk_create(c, b->in[0], w->offset + i * w->stride, w->stride * parts)
                       : deals ? walk_create(c, b->in[w->offset + i * w->stride], 0, 1)
                               : walk_create(c, b->in[i], w->offset, w->stride);
    if (!below) return false;
    w->below[i] = below;
  }
  return true;
}

static mr_walk_t *walk_create(const mr_chain_t *c, int branch, int64_t offset, int64_t stride) {
  const mr__branch_t *b = &c->branch[branch];
  assert(branch >= 0 && branch < c->n_branches && offset >= 0 && stride > 0);
  mr_walk_t *w = calloc(1, sizeof *w);
  if (!w) return NULL;
  w->branch = branch, w->offset = offset, w->stride = stride, w->n_held = -1;
  w->at = !mr__branch_spec(b)->sequential;
  if (w->at) w->pass = mr__pass_length(c, branch);
  w->n_words = w->at ? 1 : b->kind == MR__NEXT ? mr__own_words(&b->s) : 0;
  w->word = calloc((size_t)w->n_words + 1, sizeof *w->word);
  if (!w->word || (!w->at && !create_below(c, w))) return mr_walk_destroy(w), NULL;
  return w;
}

mr_walk_t *mr_walk_create(mr_chain_t *c, int64_t offset, int64_t stride) {
  return walk_create(c, c->n_branches - 1, offset, stride);
}

/* ---- state ---- */

int mr__walk_words(const mr_walk_t *w) {
  int n = w->n_words;
  for (int i = 0; i < w->n_below; i++) n += mr__walk_words(w->below[i]);
  return n;
}

static int64_t *walk_save(const mr_walk_t *w, int64_t *to) {
  memcpy(to, w->word, (size_t)w->n_words * sizeof *to);
  to += w->n_words;
  int n = mr__walk_words(w) - w->n_words;
  if (w->n_held >= 0) return memcpy(to, w->start, (size_t)n * sizeof *to), to + n;
  for (int i = 0; i < w->n_below; i++) to = walk_save(w->below[i], to);
  return to;
}

/* NULL on a number that no walk has: positions are in [0,2^62). */
static const int64_t *walk_load(mr_walk_t *w, const int64_t *from) {
  for (int i = 0; i < w->n_words; i++)
    if (from[i] < 0 || from[i] >= (INT64_C(1) << 62) / w->stride) return NULL;
  memcpy(w->word, from, (size_t)w->n_words * sizeof *from);
  from += w->n_words;
  w->n_held = -1, w->holes = 0;
  for (int i = 0; i < w->n_below && from; i++) from = walk_load(w->below[i], from);
  return from;
}

void mr_walk_save(const mr_walk_t *w, int64_t *word) { walk_save(w, word); }
bool mr_walk_load(mr_walk_t *w, const int64_t *word) { return walk_load(w, word) != NULL; }

static void rewind_walk(mr_walk_t *w) {
  memset(w->word, 0, (size_t)w->n_words * sizeof *w->word);
  w->n_held = -1, w->holes = 0;
  for (int i = 0; i < w->n_below; i++) rewind_walk(w->below[i]);
}

/* ---- the next record ---- */

mr_err_t mr__walk_ended(const mr__walking_t *x) {
  if (mr__stage_cancelled(x->s)) return MR_ERR_CANCEL;
  return mr_stopping(x->s) ? MR_END : MR_OK;
}

int64_t mr__walk_end(const mr_chain_t *c, const mr_walk_t *w) {
  const mr_spec_t *spec = mr__branch_spec(&c->branch[w->branch]);
  return spec->n_epochs ? spec->n_records * spec->n_epochs : INT64_MAX;
}

/* any: a hole is returned as a record. */
static mr_err_t pull_at(mr_walk_t *w, mr__walking_t *x, bool any) {
  mr__branch_t *b = &x->c->branch[w->branch];
  int64_t end = mr__walk_end(x->c, w);
  for (int64_t holes = 1;; holes++) {
    int64_t position = w->offset + w->word[0] * w->stride;
    assert(position >= 0);
    if (position >= end) return MR_END;
    if (position >= x->until) return x->more = true, MR_END;
    w->word[0]++, w->seen++;
    bool hole;
    MR_TRY(mr__locate(x->c, w->branch, position, x->prog, &hole));
    if (!hole) return w->holes = 0, MR_OK;
    if (any) {
      mr__op_t op = {MR__OP_HOLE, w->branch, 0, {0}};
      return mr__prog_push(x->prog, op, b->s.diag);
    }
    mr_err_t e = mr__walk_hole(w, x, holes);
    if (e != MR_OK) return e;
  }
}

static mr_err_t pull_kept(mr_walk_t *w, mr__walking_t *x) {
  for (int64_t dropped = 1;; dropped++) {
    size_t from = x->prog->n;
    bool kept;
    mr_err_t e = mr__walk_pull(w->below[0], x);
    if (e != MR_OK) return e;
    MR_TRY(mr__kept(x->c, w->branch, x->prog, from, &kept));
    if (kept) return MR_OK;
    x->prog->n = from;
    if ((e = mr__walk_dropped(w, x, dropped)) != MR_OK) return e;
  }
}

/* Ends with the shortest input. */
static mr_err_t pull_join(mr_walk_t *w, mr__walking_t *x) {
  size_t from = x->prog->n;
  for (int i = 0; i < w->n_below; i++) {
    mr_err_t e = mr__walk_pull(w->below[i], x);
    if (e != MR_OK) return x->prog->n = from, e;
  }
  mr__op_t op = {MR__OP_JOIN, w->branch, 0, {0}};
  return mr__prog_push(x->prog, op, x->s->diag);
}

mr_err_t mr__walk_pull(mr_walk_t *w, mr__walking_t *x) {
  mr__branch_t *b = &x->c->branch[w->branch];
  mr_err_t e;
  w->x = x;
  if (w->at) return pull_at(w, x, false);
  switch (b->kind) {
    case MR__KEEP: return pull_kept(w, x);
    case MR__JOIN: return pull_join(w, x);
    case MR__NEXT: return b->s.def->walk->next(&b->s, w);
    default: break;
  }
  assert(w->n_below == 1); /* a map */
  e = mr__walk_pull(w->below[0], x);
  if (e != MR_OK) return e;
  return mr__prog_push(x->prog, (mr__op_t){MR__OP_MAP, w->branch, 0, {0}}, b->s.diag);
}

/* ---- picks ---- */

struct mr_picks {
  mr__prog_t prog;
  size_t *at; /* [cap + 1] */
  int n, cap;
};

mr_picks_t *mr_picks_create(const mr_chain_t *c, int n) {
  mr_picks_t *p = calloc(1, sizeof *p);
  if (!p) return NULL;
  p->cap = n;
  p->prog.cap = (size_t)n * (size_t)mr__usual_ops(c);
  p->prog.op = malloc(p->prog.cap * sizeof *p->prog.op);
  p->at = calloc((size_t)n + 1, sizeof *p->at);
  if (!p->prog.op || !p->at) return mr_picks_destroy(p), NULL;
  return p;
}

void mr_picks_destroy(mr_picks_t *p) {
  if (!p) return;
  free(p->prog.op), free(p->at);
  free(p);
}

void mr_picks_clear(mr_picks_t *p) { p->n = 0, p->prog.n = 0; }
int mr_picks_n(const mr_picks_t *p) { return p->n; }

static mr_err_t walk_widen(mr_stage_t *s, size_t **at, int64_t *cap) {
  int64_t more = *cap ? 2 * *cap : 64;
  size_t *wider = realloc(*at, ((size_t)more + 1) * sizeof *wider);
  if (!wider) return mr_stage_no_memory(s, "%lld records", (long long)more);
  *at = wider, *cap = more;
  return MR_OK;
}

mr_err_t mr_walk_next(mr_stage_t *s, mr_chain_t *c, mr_walk_t *w, int64_t until, mr_picks_t *p,
                      bool *more) {
  mr__walking_t x = {s, c, w->at ? until : INT64_MAX, &p->prog, false};
  size_t from = p->prog.n;
  int64_t cap = p->cap;
  *more = false;
  if (p->n == p->cap) MR_TRY(walk_widen(s, &p->at, &cap));
  p->cap = (int)cap;
  mr_err_t e = mr__walk_pull(w, &x);
  *more = x.more;
  if (e != MR_OK) return p->prog.n = from, e;
  assert(p->n < p->cap && from < p->prog.n);
  p->at[p->n++] = from;
  p->at[p->n] = p->prog.n;
  return MR_OK;
}

mr_err_t mr_picks_fill(mr_stage_t *s, mr_chain_t *c, const mr_picks_t *p, int from, int n,
                       mr_buf_t *buf) {
  assert(from >= 0 && n >= 0 && n <= p->n - from);
  return n ? mr__make(c, p->prog.op, p->at + from, n, buf) : MR_OK;
}

/* ---- calls for next ---- */

int64_t *mr_walk_words(mr_walk_t *w) { return w->word; }
int mr_walk_n_below(const mr_walk_t *w) { return w->n_below; }

static mr_walk_t *below_of(const mr_walk_t *w, int i) {
  assert(i >= 0 && i < w->n_below);
  return w->below[i];
}

/* Renumbers the labels of the record that walk i has just given. */
static mr_err_t walk_renumber(const mr_walk_t *w, int i) {
  const mr__branch_t *b = &w->x->c->branch[w->branch];
  int port = 0;
  if (!b->s.renumber) return MR_OK;
  while (port + 1 < b->n_in && b->in[port] != w->below[i]->branch) port++;
  return mr__prog_renumber(b, w->branch, port, w->x->prog);
}

mr_err_t mr_walk_pull(mr_walk_t *w, int i) {
  mr_err_t e = mr__walk_pull(below_of(w, i), w->x);
  return e == MR_OK ? walk_renumber(w, i) : e;
}
void mr_walk_rewind(mr_walk_t *w, int i) { rewind_walk(below_of(w, i)); }

mr_err_t mr_walk_pull_any(mr_walk_t *w, int i) {
  mr_walk_t *below = below_of(w, i);
  mr_err_t e = below->at ? pull_at(below, w->x, true) : mr__walk_pull(below, w->x);
  return e == MR_OK ? walk_renumber(w, i) : e;
}

mr_err_t mr_walk_seed(mr_walk_t *w, const uint64_t key[2], int64_t k) {
  mr__op_t op = {MR__OP_SEED, w->branch, w->offset + k * w->stride, {key[0], key[1]}};
  return mr__prog_push(w->x->prog, op, w->x->s->diag);
}

/* ---- windows ---- */

int64_t mr_walk_held(const mr_walk_t *w) { return w->n_held; }

mr_err_t mr_walk_hold(mr_walk_t *w, int64_t n, int64_t *got) {
  mr__prog_t *out = w->x->prog;
  mr_err_t e = MR_OK;
  assert(n >= 0 && w->n_below == 1 && out != &w->held); /* start has the words of one walk */
  w->n_held = -1;
  if (!w->start) w->start = calloc((size_t)mr__walk_words(w) + 1, sizeof *w->start);
  if (!w->start) return mr_no_memory(w->x->s->diag, "a window");
  walk_save(w->below[0], w->start);
  w->held.n = 0, *got = 0;
  w->x->prog = &w->held;
  while (*got < n) {
    if (*got == w->cap_held && (e = walk_widen(w->x->s, &w->held_at, &w->cap_held)) < 0) break;
    w->held_at[*got] = w->held.n;
    if ((e = mr__walk_pull(w->below[0], w->x)) != MR_OK) break;
    w->held_at[++*got] = w->held.n;
  }
  w->x->prog = out;
  if (e < 0) return e;
  return w->n_held = *got, MR_OK;
}

mr_err_t mr_walk_give(mr_walk_t *w, int64_t i) {
  assert(i >= 0 && i < w->n_held);
  size_t from = w->held_at[i], n = w->held_at[i + 1] - from;
  return mr__prog_copy(w->x->prog, w->held.op + from, n, w->x->s->diag);
}
