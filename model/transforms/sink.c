/* Slices move up over the op that computes their operand, if that has no other reader: the op then
   computes only the elements that are read.  Transpositions move up if they vanish on the way: into
   broadcasts, counters and scalars. */
#include <stdlib.h>
#include <string.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"
#include "model/transforms/build.h"
#include "model/transforms/passes.h"
#include "model/transforms/transforms.h"

/* Moving a slice up over several operands can create equal slices of one value; the next round's
   cse merges them.  DEPTH limits the recursion. */
enum { ROUNDS = 8, DEPTH = 200 };

typedef struct sinker {
  mr_fn_t *f;
  int *uses;          /* [n_var] by var id: equations that read it when the round begins */
  mr_var_t **instead; /* [n_var] by var id: its replacement, or NULL */
  int n_var;
  bool moved;
} sinker_t;

static bool sink_view_of(const mr_eqn_t *e, mr_view_t *v) {
  *v = (mr_view_t){0};
  return e->op->fuse.is_view && e->op->fuse.is_view(e, v) && v->ndim > 0;
}

static int uses_of(const sinker_t *s, const mr_var_t *x) {
  return x->id < s->n_var ? s->uses[x->id] : 1;
}

/* Whether x has one reader and the other results of its equation have none. */
static bool read_once(const sinker_t *s, const mr_var_t *x) {
  for (int k = 1; k < x->def->n_out; k++)
    if (uses_of(s, x->def->out[k])) return false;
  return uses_of(s, x) == 1;
}

/* Whether view v of x is x's op on views of its operands, which are set in in[VIEW_IN]. */
enum { VIEW_IN = 4 };

static bool lets_through(const mr_var_t *x, const mr_view_t *v, mr_view_t *in) {
  const mr_eqn_t *d = x->def;
  if (!d || !d->op->fuse.view || d->n_in > VIEW_IN || x != d->out[0]) return false;
  memset(in, 0, VIEW_IN * sizeof *in);
  return d->op->fuse.view(d, v, in);
}

/* Returns the earlier operand of d that is operand k in the same view; -1: none. */
static int sink_seen_before(const mr_eqn_t *d, const mr_view_t *in, int k) {
  for (int j = 0; j < k; j++)
    if (d->in[j] == d->in[k] && !memcmp(&in[j], &in[k], sizeof in[k])) return j;
  return -1;
}

/* Whether x costs nothing to compute twice, once viewed and once for its other readers. */
static bool is_free_to_repeat(const mr_var_t *x) {
  return x->def->op->fuse.viewed && x->def->op->cost.moves;
}

/* Whether transposition v of x ends in values that cost nothing to transpose. */
static bool view_vanishes(const sinker_t *s, const mr_var_t *x, const mr_view_t *v, int depth) {
  mr_view_t in[VIEW_IN];
  if (depth > DEPTH || !lets_through(x, v, in)) return false;
  if (!is_free_to_repeat(x) && !read_once(s, x)) return false;
  for (int k = 0; k < x->def->n_in; k++)
    if (in[k].ndim && sink_seen_before(x->def, in, k) < 0 &&
        !view_vanishes(s, x->def->in[k], &in[k], depth + 1))
      return false;
  return true;
}

static bool sink_worth_it(const sinker_t *s, const mr_var_t *x, const mr_view_t *v) {
  mr_view_t in[VIEW_IN];
  if (v->transposes) return view_vanishes(s, x, v, 0);
  return lets_through(x, v, in) && (read_once(s, x) || is_free_to_repeat(x));
}

static mr_var_t *sunk_var(const sinker_t *s, mr_var_t *x) {
  return x->id < s->n_var && s->instead[x->id] ? s->instead[x->id] : x;
}

static bool changes_nothing(const mr_aval_t *x, const mr_view_t *v) {
  for (int i = 0; i < v->ndim; i++)
    if (v->transposes ? v->perm[i] != i : v->start[i] != 0 || v->limit[i] != x->dim[i])
      return false;
  return true;
}

/* Appends v of x as an equation and returns it; x itself if v changes nothing. */
static mr_var_t *emit_view(mr_fn_t *f, mr_var_t *x, const mr_view_t *v) {
  if (!x || changes_nothing(&x->aval, v)) return x;
  return v->transposes ? mr_lax_transpose(f, x, v->perm) : mr_lax_slice(f, x, v->start, v->limit);
}

/* Returns v of x, appended to the graph with the view moved up as far as it is worth it. */
static mr_var_t *view_var(sinker_t *s, mr_var_t *x, const mr_view_t *v, int depth) {
  mr_view_t in[VIEW_IN];
  mr_fn_t *f = s->f;
  if (!v->ndim) return sunk_var(s, x);
  if (depth > DEPTH || !sink_worth_it(s, x, v)) return emit_view(f, sunk_var(s, x), v);
  mr_var_t *operand[VIEW_IN];
  const mr_eqn_t *d = x->def;
  lets_through(x, v, in);
  for (int k = 0; k < d->n_in; k++) {
    int j = sink_seen_before(d, in, k);
    operand[k] = j < 0 ? view_var(s, d->in[k], &in[k], depth + 1) : operand[j];
  }
  mr_origin_t before = mr_origin(f);
  mr_origin_from(f, d, "sink");
  mr_eqn_t *e = d->op->fuse.viewed ? NULL : mr_emit_like(f, d, operand);
  mr_var_t *y = d->op->fuse.viewed ? d->op->fuse.viewed(f, d, v, operand) : e ? e->out[0] : NULL;
  mr_origin_set(f, before);
  s->moved = true;
  return y;
}

static mr_err_t sink_keep(sinker_t *s, mr_eqn_t *e) {
  for (int k = 0; k < e->n_in; k++) e->in[k] = sunk_var(s, e->in[k]);
  return mr__keep(s->f, e);
}

static mr_err_t sink_sweep(sinker_t *s, mr_eqn_t *const *old, int n_old) {
  for (int i = 0; i < n_old; i++) {
    mr_view_t v;
    mr_eqn_t *e = old[i];
    if (e->n_in == 1 && sink_view_of(e, &v) && sink_worth_it(s, e->in[0], &v))
      s->instead[e->out[0]->id] = view_var(s, e->in[0], &v, 0);
    else
      MR_TRY(sink_keep(s, e));
    if (s->f->diag.code < 0) return s->f->diag.code;
  }
  for (int i = 0; i < s->f->n_out; i++) s->f->out[i] = sunk_var(s, s->f->out[i]);
  return MR_OK;
}

static bool sink_is_first(const mr_eqn_t *e, int k) {
  for (int j = 0; j < k; j++)
    if (e->in[j] == e->in[k]) return false;
  return true;
}

static void sink_count_uses(sinker_t *s) {
  const mr_fn_t *f = s->f;
  for (int i = 0; i < f->n_eqn; i++)
    for (int k = 0; k < f->eqn[i]->n_in; k++)
      s->uses[f->eqn[i]->in[k]->id] += sink_is_first(f->eqn[i], k);
  for (int i = 0; i < f->n_out; i++) s->uses[f->out[i]->id]++;
}

static mr_err_t round_of(mr_fn_t *f, bool *moved, mr_diag_t *diag) {
  size_t n = (size_t)f->n_var + 1, n_old = (size_t)f->n_eqn;
  sinker_t s = {.f = f, .n_var = f->n_var};
  mr_eqn_t **old = calloc(n_old + 1, sizeof *old);
  s.uses = calloc(n, sizeof *s.uses);
  s.instead = calloc(n, sizeof *s.instead);
  mr_err_t e = MR_ERR_NOMEM;
  if (old && s.uses && s.instead) {
    memcpy(old, f->eqn, n_old * sizeof *old);
    sink_count_uses(&s);
    f->n_eqn = 0;
    e = sink_sweep(&s, old, (int)n_old);
  }
  free(old), free(s.uses), free(s.instead);
  *moved = s.moved;
  return e < 0 && f->diag.code >= 0 ? mr_no_memory(diag, "sink") : mr_diag_relay(diag, e, &f->diag);
}

static bool has_views(const mr_fn_t *f) {
  for (int i = 0; i < f->n_eqn; i++)
    if (f->eqn[i]->op->fuse.is_view) return true;
  return false;
}

mr_err_t mr_sink(mr_fn_t *f, mr_diag_t *diag) {
  bool moved = has_views(f);
  for (int i = 0; i < ROUNDS && moved; i++) {
    mr_dce(f);
    MR_TRY(mr_cse(f, diag));
    MR_TRY(round_of(f, &moved, diag));
  }
  mr_dce(f);
  return MR_OK;
}
