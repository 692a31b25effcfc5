/* Counts what a filter keeps in the order of the index.

   A filter that decides by the record alone (.of_record) keeps the same records in whichever order
   they come.  So before a period of a shuffled stream is counted, its records are fetched in the
   order in which they lie in the source, which a disk reads at its full rate, and what the filter
   says is noted, two bits a record.  Counting the period, and finding the batches after it, then
   fetches none of them.

   A record that cannot be read, or that a map or the list of bad records rejects, is left unknown:
   it is met where the stream comes to it, as without notes, so that the list of bad records and the
   ledger are the same. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/records/care_private.h"
#include "pipeline/records/walk_private.h"

enum { UNKNOWN, WANTED, DROPPED, KEPT };

/* Most records of a source, and of a period, that are noted: 256 MiB of notes. */
static const int64_t NOTES_MOST = INT64_C(1) << 30;

static int note_of(const uint8_t *notes, int64_t i) { return notes[i / 4] >> i % 4 * 2 & 3; }
static void set_note(uint8_t *notes, int64_t i, int note) {
  notes[i / 4] = (uint8_t)((notes[i / 4] & ~(3 << i % 4 * 2)) | note << i % 4 * 2);
}

bool mr__sift_knows(const mr_chain_t *c, int branch, const mr__op_t *op, bool *kept) {
  uint8_t *const *sifted = c->branch[branch].sifted;
  if (!sifted || op->code != MR__OP_LEAF || !sifted[op->node]) return false;
  int note = note_of(sifted[op->node], op->index);
  *kept = note == KEPT;
  return note >= DROPPED;
}

void mr__sift_want(mr_chain_t *c, int branch, const mr__op_t *op) {
  uint8_t *const *sifted = c->branch[branch].sifted;
  if (!sifted || op->code != MR__OP_LEAF || !sifted[op->node]) return;
  if (note_of(sifted[op->node], op->index) == UNKNOWN)
    set_note(sifted[op->node], op->index, WANTED);
}

void mr__sift_forget(mr_chain_t *c) {
  for (int i = 0; i < c->n_branches; i++) {
    for (int k = 0; c->branch[i].sifted && k < c->n_branches; k++) free(c->branch[i].sifted[k]);
    free(c->branch[i].sifted);
    c->branch[i].sifted = NULL;
  }
}

/* ---- from a filter down to its sources ---- */

typedef struct sift {
  mr__walking_t *x;
  mr_chain_t *c;
  int keep;                    /* branch of the filter */
  bool all;                    /* each record of the sources is wanted */
  int64_t records;             /* of the sources together */
  mr__prog_t path;             /* what happens to a record before the filter, the last first */
  mr__prog_t burst;            /* the same in its order, from the source on */
  bool joined;                 /* the path has passed a join */
  uint8_t from[MR_FIELDS_MAX]; /* field of the first input of the last join that the filter reads */
  mr_err_t (*leaf)(struct sift *t, int leaf);
} sift_t;

static mr_err_t sift_below(sift_t *t, int branch);

/* Whether what a branch does to the record of an input can be done to it alone.  Behind a join it
   cannot: the join's other inputs are not there. */
static bool sift_passes(sift_t *t, int branch, int port, mr_err_t *e) {
  const mr__branch_t *b = &t->c->branch[branch];
  size_t from = t->path.n;
  *e = MR_OK;
  if (b->kind == MR__MAP)
    *e = mr__prog_push(&t->path, (mr__op_t){MR__OP_MAP, branch, 0, {0}}, b->s.diag);
  else if (b->kind == MR__ORDER || b->kind == MR__NEXT)
    *e = mr__prog_renumber(b, branch, port, &t->path);
  return b->kind != MR__JOIN || !from;
}

/* The sources from which the filter's record comes: of joined records the first one counts. */
static mr_err_t sift_inputs(sift_t *t, int branch) {
  const mr__branch_t *b = &t->c->branch[branch];
  uint8_t from[MR_FIELDS_MAX];
  bool joined = t->joined;
  size_t n = t->path.n;
  mr_err_t e = MR_OK;
  memcpy(from, t->from, sizeof from);
  for (int i = 0; i < (b->kind == MR__JOIN ? 1 : b->n_in) && e == MR_OK; i++) {
    if (sift_passes(t, branch, i, &e) && e == MR_OK) {
      for (int f = 0; b->kind == MR__JOIN && t->c->branch[t->keep].s.reads >> f; f++)
        if (t->c->branch[t->keep].s.reads >> f & 1) t->from[f] = b->field[t->from[f]].in;
      t->joined |= b->kind == MR__JOIN;
      e = sift_below(t, b->in[i]);
    }
    memcpy(t->from, from, sizeof from);
    t->joined = joined, t->path.n = n;
  }
  return e;
}

static mr_err_t sift_below(sift_t *t, int branch) {
  return t->c->branch[branch].kind == MR__SOURCE ? t->leaf(t, branch) : sift_inputs(t, branch);
}

static mr_err_t count_leaf(sift_t *t, int leaf) {
  int64_t n = mr__branch_spec(&t->c->branch[leaf])->n_records;
  t->records += n < NOTES_MOST ? n : NOTES_MOST;
  return MR_OK;
}

static mr_err_t note_leaf(sift_t *t, int leaf) {
  uint8_t **sifted = t->c->branch[t->keep].sifted;
  int64_t n = mr__branch_spec(&t->c->branch[leaf])->n_records;
  /* Without memory its records are fetched where they are met. */
  if (!sifted[leaf] && n < NOTES_MOST) sifted[leaf] = calloc((size_t)(n / 4 + 1), 1);
  return MR_OK;
}

/* ---- asking the filter ---- */

/* Fetches n records of a source into its burst; false if one of them cannot be read. */
static bool sift_fetch(mr_chain_t *c, mr__branch_t *b, const int64_t *index, int n) {
  mr_diag_t why = {0}, *diag = b->s.diag;
  while (c->n_fetched) c->branch[c->fetched[--c->n_fetched]].n = 0;
  c->fetched[c->n_fetched++] = (int)(b - c->branch);
  for (int i = 0; i < n; i++) {
    b->rec[i] = (mr_rec_t){.field = b->value + i * b->n_fields};
    b->index[i] = index[i];
  }
  b->n = n;
  b->s.diag = &why;
  int64_t since = mr__tally_begin(&b->tally);
  mr_err_t e = b->s.def->source->fetch(&b->s, b->worker, index, n, b->rec);
  mr__tally_end(&b->tally, since);
  b->s.diag = diag;
  return e >= 0;
}

/* Whether another record replaces this one. */
static bool has_replacement(const mr_stage_t *s, int64_t index) {
  mr_care_t *care = mr__care_of(s);
  struct mr__care *t = care ? care->rt : NULL;
  if (!t || !mr__care_n_bad(t)) return false;
  pthread_mutex_lock(&t->lock);
  bool bad = mr__care_bad(t, index) != NULL;
  pthread_mutex_unlock(&t->lock);
  return bad;
}

/* What the filter says of record i of the burst that has been fetched. */
static int ask_filter(sift_t *t, const mr__branch_t *source, int i) {
  mr__branch_t *b = &t->c->branch[t->keep];
  mr_diag_t kept = *b->s.diag;
  mr_value_t value[MR_FIELDS_MAX] = {0};
  mr_rec_t rec;
  bool keep = false;
  if (has_replacement(&source->s, source->index[i])) return UNKNOWN;
  t->burst.op[0].key[0] = (uint64_t)i;
  mr_err_t e = mr__run(t->c, t->burst.op, t->burst.n, false, &rec);
  if (e >= 0 && t->joined) {
    for (int f = 0; b->s.reads >> f; f++)
      if (b->s.reads >> f & 1) value[f] = rec.field[t->from[f]];
    rec.field = value;
  }
  if (e >= 0) e = b->s.def->filter->keep(&b->s, &rec, &keep);
  if (e < 0) return *b->s.diag = kept, UNKNOWN;
  return keep ? KEPT : DROPPED;
}

/* Notes what the filter says of n records of a source.  If one cannot be read, each is read by
   itself. */
static void sift_burst(sift_t *t, int leaf, const int64_t *index, int n) {
  mr__branch_t *b = &t->c->branch[leaf];
  uint8_t *notes = t->c->branch[t->keep].sifted[leaf];
  if (sift_fetch(t->c, b, index, n)) {
    for (int i = 0; i < n; i++) set_note(notes, index[i], ask_filter(t, b, i));
    return;
  }
  for (int i = 0; i < n; i++) {
    bool read = n > 1 && sift_fetch(t->c, b, index + i, 1);
    set_note(notes, index[i], read ? ask_filter(t, b, 0) : UNKNOWN);
  }
}

/* The record's program up to the filter.  Which generator a map has does not matter here, but some
   want one. */
static mr_err_t sift_program(sift_t *t, int leaf) {
  mr_diag_t *diag = t->c->branch[leaf].s.diag;
  t->burst.n = 0;
  MR_TRY(mr__prog_push(&t->burst, (mr__op_t){MR__OP_LEAF, leaf, 0, {0}}, diag));
  MR_TRY(mr__prog_push(&t->burst, (mr__op_t){MR__OP_SEED, leaf, 0, {0}}, diag));
  for (size_t k = t->path.n; k > 0; k--) MR_TRY(mr__prog_push(&t->burst, t->path.op[k - 1], diag));
  return MR_OK;
}

static mr_err_t sift_leaf(sift_t *t, int leaf) {
  const uint8_t *notes = t->c->branch[t->keep].sifted[leaf];
  int64_t index[MR_BURST], n = mr__branch_spec(&t->c->branch[leaf])->n_records;
  int k = 0;
  if (!notes) return MR_OK;
  MR_TRY(sift_program(t, leaf));
  for (int64_t i = 0; i < n; i++) {
    if (i % MR__LOOK_UP_EVERY == 0) {
      mr_err_t e = mr__walk_ended(t->x);
      if (e != MR_OK) return e;
    }
    int note = note_of(notes, i);
    if (note == WANTED || (t->all && note == UNKNOWN)) index[k++] = i;
    if (k == MR_BURST) sift_burst(t, leaf, index, k), k = 0;
  }
  if (k) sift_burst(t, leaf, index, k);
  return MR_OK;
}

/* ---- the filters of a period ---- */

/* Does something with each source of each filter of a branch and of those below it that decides by
   the record alone. */
static mr_err_t each_filter(sift_t *t, int branch, mr_err_t (*leaf)(sift_t *, int)) {
  const mr__branch_t *b = &t->c->branch[branch];
  mr_err_t e = MR_OK;
  if (b->kind == MR__KEEP && mr__is_of_record(t->c, branch)) {
    t->keep = branch, t->leaf = leaf, t->path.n = 0, t->joined = false;
    for (int f = 0; f < MR_FIELDS_MAX; f++) t->from[f] = (uint8_t)f;
    e = sift_inputs(t, branch);
  }
  for (int i = 0; i < b->n_in && e == MR_OK; i++) e = each_filter(t, b->in[i], leaf);
  return e;
}

static mr_err_t make_notes(mr_chain_t *c, int branch) {
  mr__branch_t *b = &c->branch[branch];
  if (b->kind == MR__KEEP && !b->sifted) {
    b->sifted = calloc((size_t)c->n_branches, sizeof *b->sifted);
    if (!b->sifted) return mr_stage_no_memory(&b->s, "what it keeps");
  }
  for (int i = 0; i < b->n_in; i++) MR_TRY(make_notes(c, b->in[i]));
  return MR_OK;
}

/* Notes which records the next n positions of a walk want. */
static mr_err_t want_positions(sift_t *t, int keep, const mr_walk_t *at, int64_t n) {
  mr_chain_t *c = t->c;
  mr__prog_t p = {0};
  mr_err_t e = MR_OK;
  int64_t end = mr__walk_end(c, at), first = at->offset + at->word[0] * at->stride;
  c->sifts = true;
  for (int64_t i = 0; i < n && i < (end - first + at->stride - 1) / at->stride && e == MR_OK; i++) {
    bool hole;
    p.n = 0;
    if (i % MR__LOOK_UP_EVERY == 0 && (e = mr__walk_ended(t->x)) != MR_OK) break;
    e = mr__locate(c, at->branch, first + i * at->stride, &p, &hole);
    if (e == MR_OK && !hole && keep >= 0) mr__sift_want(c, keep, p.op);
  }
  c->sifts = false;
  free(p.op);
  return e;
}

/* A failure is met again, and reported, where the stream comes to it. */
mr_err_t mr__sift(mr__walking_t *x, const mr_walk_t *w, const mr_walk_t *at, int64_t n) {
  sift_t t = {.x = x, .c = x->c};
  mr_diag_t kept = *x->s->diag;
  if (n > NOTES_MOST) return MR_OK;
  mr_err_t e = make_notes(x->c, w->branch);
  if (e == MR_OK) e = each_filter(&t, w->branch, note_leaf);
  if (e == MR_OK) e = each_filter(&t, w->branch, count_leaf);
  t.all = t.records <= (n < NOTES_MOST / at->stride ? n * at->stride : NOTES_MOST);
  if (e == MR_OK && !t.all) e = want_positions(&t, w == at ? -1 : w->branch, at, n);
  if (e == MR_OK) e = each_filter(&t, w->branch, sift_leaf);
  free(t.path.op), free(t.burst.op);
  if (e < 0 && e != MR_ERR_CANCEL) return *x->s->diag = kept, MR_OK;
  return e;
}
