/* A loop folds its elements in one way: along rows or along columns of one length.  A value that
   sums of two ways read is written to memory by the first loop and read by the second, such as the
   n x n products of an outer product of which a gradient needs the sums of both directions.  Where
   it can be computed from operands that are there anyway, at the price of fewer bytes than that,
   each way of summing gets equations of its own, and the value exists nowhere.  So does a sum
   behind another one, such as a variance behind its mean: the second loop begins when the first has
   ended.

   Only for targets whose loops end at their sums; where a loop continues past the sums of its rows,
   recompute.c weighs what is read again. */
#include <stdlib.h>
#include <string.h>

#include "model/ir/op.h"
#include "model/transforms/build.h"
#include "model/transforms/passes.h"
#include "model/transforms/transforms.h"

/* Values of LARGE bytes or more are computed again, by at most WORK elementwise ops, from values of
   which those that are SMALL times smaller cost nothing. */
enum { LARGE = 1 << 20, SMALL = 32, WORK = 16, CHAIN = 24, LEAVES = 8, WAYS = 32 };

/* A way of folding n elements; the first that reads a value keeps its equations. */
typedef struct way {
  int64_t n, inner;
  int behind; /* folds that end before it may begin, one after the other */
  bool columns;
} way_t;

typedef struct unsharer {
  mr_fn_t *f;
  mr_eqn_t **old; /* the equations before */
  int n_old, n_var;
  int *place;  /* [n_var] index in old of the equation that computes it, -1: an input */
  bool *kept;  /* [n_var] it exists in memory anyway */
  int *owner;  /* [n_var] the way that reads it; -1: none yet */
  int *behind; /* [n_var] the most folds on a path to it */
  int n_way;
  way_t way[WAYS];
  mr_var_t **copy; /* [WAYS][n_var] */
  /* the chain being walked over, operands first */
  mr_eqn_t *chain[CHAIN];
  const mr_var_t *leaf[LEAVES];
  int n_chain, n_leaf, work;
  bool some; /* a chain has been emitted again */
} unsharer_t;

static bool unshare_unit_of(const mr_eqn_t *e, mr_unit_t *u) {
  *u = (mr_unit_t){0};
  return e->op->fuse.unit && e->n_out == 1 && e->n_in <= MR_UNIT_IN && e->op->fuse.unit(e, u);
}

static bool is_fold_unit(const mr_unit_t *u) {
  return u->kind == MR_UNIT_REDUCE || u->kind == MR_UNIT_COLUMNS;
}

static int64_t unshare_elems(const mr_var_t *v) { return mr_aval_elems(&v->aval); }

/* What is read by anything but loops of as many elements is in memory anyway. */
static void find_kept_values(unsharer_t *s) {
  mr_unit_t u;
  for (int v = 0; v < s->n_var; v++) s->place[v] = s->owner[v] = -1;
  for (int i = 0; i < s->n_old; i++) {
    const mr_eqn_t *e = s->old[i];
    bool unit = unshare_unit_of(e, &u), loop = unit && (is_fold_unit(&u) || u.kind <= MR_UNIT_SAME);
    for (int k = 0; k < e->n_in; k++)
      if (!e->in[k]->literal) s->kept[e->in[k]->id] |= !loop;
    int behind = 0;
    for (int k = 0; k < e->n_in; k++)
      if (!e->in[k]->literal && s->behind[e->in[k]->id] > behind) behind = s->behind[e->in[k]->id];
    for (int k = 0; k < e->n_out; k++) {
      s->place[e->out[k]->id] = i;
      s->behind[e->out[k]->id] = behind + (unit && is_fold_unit(&u));
      s->kept[e->out[k]->id] |= !unit || is_fold_unit(&u);
    }
  }
  for (int k = 0; k < s->f->n_out; k++)
    if (!s->f->out[k]->literal) s->kept[s->f->out[k]->id] = true;
}

/* Whether e may be emitted again: conversions that a pass took into e change its rule for shapes.
 */
static bool can_emit_again(const mr_eqn_t *e, const mr_unit_t *u) {
  if (e->op->fuse.apart) return false;
  if (u->kind == MR_UNIT_INDEX) return true;
  if (u->kind != MR_UNIT_EACH && u->kind != MR_UNIT_SAME && u->kind != MR_UNIT_REPEAT) return false;
  for (int k = 0; k < e->n_in; k++)
    if (e->op->amp.mixes && e->in[k]->aval.dtype != e->out[0]->aval.dtype) return false;
  return true;
}

static bool is_in_chain(const unsharer_t *s, const mr_eqn_t *e) {
  for (int i = 0; i < s->n_chain; i++)
    if (s->chain[i] == e) return true;
  return false;
}

static bool add_chain_leaf(unsharer_t *s, const mr_var_t *v, size_t bytes) {
  bool input = s->place[v->id] < 0, small = mr_aval_bytes(&v->aval) <= bytes / SMALL;
  if (!input && !small) return false; /* it would be kept for longer */
  for (int i = 0; i < s->n_leaf; i++)
    if (s->leaf[i] == v) return true;
  if (s->n_leaf == LEAVES) return false;
  s->leaf[s->n_leaf++] = v;
  return true;
}

/* Adds the equations that make v, of `bytes` or of operands of such, to the chain.  False if it
   would be too long, or is made of what may not be read again. */
static bool walk_chain(unsharer_t *s, const mr_var_t *v, size_t bytes) {
  mr_unit_t u;
  if (v->literal) return true;
  if (s->place[v->id] < 0 || mr_aval_bytes(&v->aval) <= bytes / SMALL)
    return add_chain_leaf(s, v, bytes);
  mr_eqn_t *e = s->old[s->place[v->id]];
  if (is_in_chain(s, e)) return true;
  if (!unshare_unit_of(e, &u) || !can_emit_again(e, &u)) return false;
  bool repeat = u.kind == MR_UNIT_REPEAT || u.kind == MR_UNIT_INDEX;
  if (s->kept[v->id] && !repeat) return false;
  for (int k = 0; k < e->n_in; k++)
    if (!walk_chain(s, e->in[k], bytes)) return false;
  if (s->n_chain == CHAIN) return false;
  s->work += u.kind == MR_UNIT_EACH;
  s->chain[s->n_chain++] = e;
  return s->work <= WORK;
}

/* Whether v is cheaper to compute than to write and read. */
static bool is_cheap_again(unsharer_t *s, const mr_var_t *v) {
  size_t bytes = mr_aval_bytes(&v->aval), read = 0;
  s->n_chain = s->n_leaf = s->work = 0;
  if (v->literal || bytes < LARGE || !walk_chain(s, v, bytes)) return false;
  for (int i = 0; i < s->n_leaf; i++) {
    size_t own = mr_aval_bytes(&s->leaf[i]->aval);
    read += own > bytes / SMALL ? own : 0;
  }
  return s->n_chain && read < 2 * bytes;
}

static int find_fold_way(unsharer_t *s, const mr_eqn_t *e, const mr_unit_t *u) {
  way_t w = {unshare_elems(e->in[0]), u->inner, s->behind[e->in[0]->id],
             u->kind == MR_UNIT_COLUMNS};
  for (int i = 0; i < s->n_way; i++) {
    const way_t *o = &s->way[i];
    if (o->n == w.n && o->inner == w.inner && o->behind == w.behind && o->columns == w.columns)
      return i;
  }
  if (s->n_way == WAYS) return -1;
  s->way[s->n_way] = w;
  return s->n_way++;
}

/* Whether equations of the chain, broadcasts aside, are another way's. */
static bool chain_is_shared(const unsharer_t *s, int way) {
  mr_unit_t u;
  for (int i = 0; i < s->n_chain; i++) {
    int owner = s->owner[s->chain[i]->out[0]->id];
    unshare_unit_of(s->chain[i], &u);
    if (owner >= 0 && owner != way && u.kind <= MR_UNIT_SAME) return true;
  }
  return false;
}

/* Emits the chain again for a way, behind which *v is its own. */
static mr_err_t emit_chain_again(unsharer_t *s, int way, mr_var_t **v) {
  mr_var_t **copy = s->copy + (size_t)way * (size_t)s->n_var;
  for (int i = 0; i < s->n_chain; i++) {
    mr_eqn_t *e = s->chain[i];
    mr_var_t *in[MR_UNIT_IN];
    if (copy[e->out[0]->id]) continue;
    for (int k = 0; k < e->n_in; k++) {
      mr_var_t *x = e->in[k];
      in[k] = x->literal || !copy[x->id] ? x : copy[x->id];
    }
    mr_origin_t before = mr_origin(s->f);
    mr_origin_from(s->f, e, "unshare");
    mr_eqn_t *c = mr_emit(s->f, e->op, e->n_in, in, e->n_attr, e->attr, 1);
    mr_origin_set(s->f, before);
    if (!c) return s->f->diag.code;
    copy[e->out[0]->id] = c->out[0];
  }
  *v = copy[(*v)->id], s->some = true;
  return MR_OK;
}

static mr_err_t unshare_fold(unsharer_t *s, mr_eqn_t *e, const mr_unit_t *u) {
  if (!is_cheap_again(s, e->in[0])) return MR_OK;
  int way = find_fold_way(s, e, u);
  if (way < 0) return MR_OK;
  if (chain_is_shared(s, way)) return emit_chain_again(s, way, &e->in[0]);
  for (int i = 0; i < s->n_chain; i++) s->owner[s->chain[i]->out[0]->id] = way;
  return MR_OK;
}

static mr_err_t unshare_rewrite(unsharer_t *s) {
  mr_unit_t u;
  for (int i = 0; i < s->n_old; i++) {
    mr_eqn_t *e = s->old[i];
    if (unshare_unit_of(e, &u) && is_fold_unit(&u)) MR_TRY(unshare_fold(s, e, &u));
    MR_TRY(mr__keep(s->f, e));
  }
  if (s->some) mr_dce(s->f); /* what all its readers compute again */
  return MR_OK;
}

mr_err_t mr_unshare(mr_fn_t *f, const mr_target_t *t, mr_diag_t *diag) {
  if (t->rows || f->n_eqn == 0) return MR_OK;
  unsharer_t *s = calloc(1, sizeof *s);
  if (!s) return mr_no_memory(diag, "unshare");
  s->f = f, s->n_old = f->n_eqn, s->n_var = f->n_var;
  size_t n = (size_t)f->n_var + 1;
  s->old = malloc((size_t)f->n_eqn * sizeof *s->old);
  s->place = calloc(3 * n, sizeof *s->place);
  s->kept = calloc(n, sizeof *s->kept);
  s->copy = calloc(WAYS * n, sizeof *s->copy);
  mr_err_t e = MR_ERR_NOMEM;
  if (s->old && s->place && s->kept && s->copy) {
    memcpy(s->old, f->eqn, (size_t)f->n_eqn * sizeof *s->old);
    s->owner = s->place + n, s->behind = s->owner + n;
    find_kept_values(s);
    f->n_eqn = 0;
    e = unshare_rewrite(s);
  }
  free(s->old), free(s->place), free(s->kept), free(s->copy), free(s);
  return e < 0 && f->diag.code >= 0 ? mr_no_memory(diag, "unshare")
                                    : mr_diag_relay(diag, e, &f->diag);
}
