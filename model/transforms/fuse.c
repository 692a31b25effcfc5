/* Chains of elementwise ops, and reductions of their results over trailing or leading dimensions,
   become one op: a loop over blocks that stay in the first-level cache.

   A group grows along the list of equations and is written in the place of its last member.  That
   is correct until an equation outside reads one of its values, which closes the group.  Broadcasts
   and counters are copied into each group that reads them.  After XLA's loop fusion. */
#include <stdlib.h>
#include <string.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"
#include "model/transforms/build.h"
#include "model/transforms/passes.h"
#include "model/transforms/transforms.h"

/* A group takes members within REACH equations of its last one: its operands must be kept until
   then. */
enum { MEMBERS = 48, REACH = 24 };

typedef struct group {
  int first, last; /* members are among these equations */
  int n_member, n_each;
  int64_t n, inner; /* elements; elements of a row, 0 without reductions */
  bool columns;     /* reductions fold rows into one; a group has one kind of reduction */
  bool closed;
  int into;    /* the group it was merged into, or itself */
  mr_eqn_t *e; /* the fused equation; NULL: its members stay as they are */
} group_t;

typedef struct fuser {
  mr_fn_t *f;
  const mr_target_t *t;
  mr_eqn_t **eqn; /* the equations before */
  int n_eqn, n_var, n_group;
  int *of;   /* [n_eqn]: its group, -1 */
  int *at;   /* by var id: the equation that assigns it, -1 */
  int *uses; /* by var id: number of reads, outputs of the graph included */
  group_t *group;
  mr_var_t **map; /* by var id: its var in the body of one group */
} fuser_t;

static int64_t fuse_elems(const mr_var_t *v) { return mr_aval_elems(&v->aval); }

static int root(const fuser_t *s, int g) {
  while (g >= 0 && s->group[g].into != g) g = s->group[g].into;
  return g;
}

static int group_of(const fuser_t *s, int i) { return i < 0 ? -1 : root(s, s->of[i]); }

static bool fuse_unit_of(const mr_eqn_t *e, mr_unit_t *u) {
  *u = (mr_unit_t){0};
  return e->op->unit && e->n_out == 1 && e->n_in <= MR_UNIT_IN && e->op->unit(e, u) &&
         (!e->n_in || fuse_elems(e->in[0])) && fuse_elems(e->out[0]);
}

/* ---- groups ---- */
/* Returns the open group that computes operand v, if an op on n elements may join it; -1 if not. */
static int candidate(const fuser_t *s, const mr_var_t *v, int i, int64_t n) {
  int g = group_of(s, s->at[v->id]);
  if (g < 0) return -1;
  const group_t *x = &s->group[g];
  return !x->closed && x->n == n && i - x->last <= REACH && x->n_member < MEMBERS ? g : -1;
}

static bool same_rows(const group_t *x, int64_t inner, bool columns) {
  return !x->inner || !inner || (x->inner == inner && x->columns == columns);
}

static bool fits_together(const group_t *a, const group_t *b) {
  return a->n_member + b->n_member < MEMBERS && same_rows(a, b->inner, b->columns);
}

static void fuse_merge(fuser_t *s, int a, int b) {
  group_t *x = &s->group[a], *y = &s->group[b];
  if (y->first < x->first) x->first = y->first;
  if (y->last > x->last) x->last = y->last;
  x->n_member += y->n_member;
  x->n_each += y->n_each;
  if (y->inner) x->inner = y->inner, x->columns = y->columns;
  y->into = a;
}

/* Whether e reads a sum of group g.  The sum is complete only when the loop ends, so e cannot be
   part of that loop. */
static bool reads_sum(const fuser_t *s, const mr_eqn_t *e, int g) {
  for (int k = 0; k < e->n_in; k++) {
    int at = s->at[e->in[k]->id];
    if (group_of(s, at) == g && fuse_elems(e->in[k]) != s->group[g].n) return true;
  }
  return false;
}

/* Returns the group that e at i may join, after merging the groups of its operands; -1: none. */
static int fuse_choose(fuser_t *s, const mr_eqn_t *e, int i, int64_t n) {
  int g = -1;
  for (int k = 0; k < e->n_in; k++) {
    int c = candidate(s, e->in[k], i, n);
    if (c < 0 || c == g || reads_sum(s, e, c)) continue;
    if (g < 0)
      g = c;
    else if (fits_together(&s->group[g], &s->group[c]))
      fuse_merge(s, g, c);
  }
  return g;
}

static int new_group(fuser_t *s, int i, int64_t n) {
  int g = s->n_group++;
  s->group[g] = (group_t){.first = i, .last = i, .n = n, .into = g};
  return g;
}

static int fuse_place(fuser_t *s, int i) {
  const mr_eqn_t *e = s->eqn[i];
  mr_unit_t u;
  if (!fuse_unit_of(e, &u) || u.kind == MR_UNIT_REPEAT || u.kind == MR_UNIT_INDEX) return -1;
  int64_t n =
      fuse_elems(e->in[0]) > fuse_elems(e->out[0]) ? fuse_elems(e->in[0]) : fuse_elems(e->out[0]);
  int g = fuse_choose(s, e, i, n);
  if (u.kind != MR_UNIT_EACH && g < 0) return -1;
  bool columns = u.kind == MR_UNIT_COLUMNS, folds = columns || u.kind == MR_UNIT_REDUCE;
  if (folds && !same_rows(&s->group[g], u.inner, columns)) return -1;
  if (g < 0) g = new_group(s, i, n);
  s->group[g].last = i;
  s->group[g].n_member++;
  s->group[g].n_each += u.kind == MR_UNIT_EACH;
  if (folds) s->group[g].inner = u.inner, s->group[g].columns = columns;
  return g;
}

/* Closes the groups other than `mine` whose values e reads. */
static void close_others(fuser_t *s, const mr_eqn_t *e, int mine) {
  for (int k = 0; k < e->n_in; k++) {
    int g = group_of(s, s->at[e->in[k]->id]);
    if (g >= 0 && g != mine) s->group[g].closed = true;
  }
}

static void fuse_find_groups(fuser_t *s) {
  for (int i = 0; i < s->n_eqn; i++) {
    const mr_eqn_t *e = s->eqn[i];
    s->of[i] = fuse_place(s, i);
    close_others(s, e, root(s, s->of[i]));
    for (int k = 0; k < e->n_out; k++) s->at[e->out[k]->id] = i;
    for (int k = 0; k < e->n_in; k++) s->uses[e->in[k]->id]++;
  }
  for (int i = 0; i < s->f->n_out; i++) s->uses[s->f->out[i]->id]++;
}

/* ---- one group as an equation ---- */
typedef struct body {
  mr_fn_t *fn;
  mr_var_t *in[MR_LOOP_ENDS], *out[MR_LOOP_ENDS], *inner[MR_LOOP_ENDS];
  int n_in, n_out, n_repeat;
  bool full; /* past a limit of the target, or failed: no fused equation */
} body_t;

static void add_input(fuser_t *s, body_t *b, mr_var_t *v) {
  if (v->literal || s->map[v->id]) return;
  b->full |= b->n_in == s->t->loop_ends;
  if (b->full) return;
  s->map[v->id] = mr_fn_input(b->fn, v->aval);
  b->in[b->n_in++] = v;
}

static bool is_repeat(const mr_var_t *v) {
  mr_unit_t u;
  if (!v->def || !fuse_unit_of(v->def, &u)) return false;
  return u.kind == MR_UNIT_INDEX ||
         (u.kind == MR_UNIT_REPEAT && fuse_elems(v->def->in[0]) != fuse_elems(v));
}

/* Adds an operand that no member computes: as an input, or by copying a broadcast or counter. */
static void add_operand(fuser_t *s, body_t *b, mr_var_t *v) {
  if (s->map[v->id]) return;
  if (!is_repeat(v)) {
    add_input(s, b, v);
    return;
  }
  if (v->def->n_in) add_input(s, b, v->def->in[0]);
  if (!b->full) mr__copy_eqn(b->fn, v->def, s->map);
  b->n_repeat++;
}

/* Returns v in the body.  bf16 and f16 operands of an f32 result (mr_fold_convert) are converted,
   since inside a body the ops' own shape rules hold. */
static mr_var_t *widened(fuser_t *s, body_t *b, const mr_eqn_t *e, mr_var_t *v) {
  mr_var_t *x = mr__mapped(b->fn, s->map, v);
  bool beside = e->op->mixes && e->out[0]->aval.dtype == MR_F32;
  return beside && mr_is_narrow(v->aval.dtype) ? mr_lax_convert(b->fn, x, MR_F32) : x;
}

static void add_member(fuser_t *s, body_t *b, const mr_eqn_t *e) {
  mr_var_t *in[MR_UNIT_IN];
  for (int k = 0; k < e->n_in && !b->full; k++) add_operand(s, b, e->in[k]);
  for (int k = 0; k < e->n_in && !b->full; k++) in[k] = widened(s, b, e, e->in[k]);
  mr_eqn_t *c = b->full ? NULL : mr_emit_like(b->fn, e, in);
  if (c) s->map[e->out[0]->id] = c->out[0];
  b->full |= b->fn->n_eqn > s->t->loop_eqns || b->fn->diag.code < 0;
}

static void add_members(fuser_t *s, int g, body_t *b) {
  for (int i = s->group[g].first; i <= s->group[g].last && !b->full; i++)
    if (group_of(s, i) == g) add_member(s, b, s->eqn[i]);
}

static int reads_inside(const fuser_t *s, int g, const mr_var_t *v) {
  int n = 0;
  for (int i = s->group[g].first; i <= s->group[g].last; i++)
    for (int k = 0; group_of(s, i) == g && k < s->eqn[i]->n_in; k++) n += s->eqn[i]->in[k] == v;
  return n;
}

/* Returns the var of the body that has v's bytes: reshapes undone. */
static const mr_var_t *fuse_bytes_of(const mr_var_t *v) {
  while (v->def && v->def->op->kind == MR_OP_ALIAS && v->def->op->unit) v = v->def->in[0];
  return v;
}

/* Whether the body already returns a value with these bytes. */
static bool given(const body_t *b, const mr_var_t *inner) {
  for (int k = 0; k < b->n_out; k++)
    if (fuse_bytes_of(b->inner[k]) == fuse_bytes_of(inner)) return true;
  return false;
}

/* Adds as outputs the values with readers outside the group. */
static void fuse_add_outputs(fuser_t *s, int g, body_t *b) {
  for (int i = s->group[g].first; i <= s->group[g].last && !b->full; i++) {
    if (group_of(s, i) != g) continue;
    mr_var_t *v = s->eqn[i]->out[0];
    if (s->uses[v->id] == reads_inside(s, g, v)) continue;
    b->full |= b->n_out == s->t->loop_ends || given(b, s->map[v->id]);
    if (b->full) return;
    b->inner[b->n_out] = s->map[v->id];
    b->out[b->n_out++] = v;
  }
}

static bool fuse_worth_it(const group_t *x, const body_t *b) {
  return x->n_each && x->n_each + b->n_repeat + (x->inner > 0) > 1 && b->n_out;
}

/* The fused equation assigns the vars that its members assigned; readers stay as they are. */
static mr_eqn_t *fuse_emit(fuser_t *s, int g, const body_t *b) {
  mr_origin_t before = mr_origin(s->f);
  mr_origin_from(s->f, s->eqn[s->group[g].last], "fuse");
  mr_eqn_t *e = mr_emit(s->f, &mr_op_fused, b->n_in, (mr_var_t **)b->in, 1,
                        (mr_attr_t[]){mr_attr_fn("jaxpr", b->fn)}, b->n_out);
  mr_origin_set(s->f, before);
  for (int k = 0; e && k < b->n_out; k++) {
    e->out[k] = b->out[k];
    b->out[k]->def = e;
  }
  return e;
}

static mr_err_t form(fuser_t *s, int g) {
  body_t b = {.fn = mr_fn_create()};
  if (!b.fn) return mr_no_memory(&s->f->diag, "fuse");
  memset(s->map, 0, (size_t)s->n_var * sizeof *s->map);
  add_members(s, g, &b);
  fuse_add_outputs(s, g, &b);
  mr_err_t err = b.fn->diag.code;
  if (!b.full && err >= 0 && fuse_worth_it(&s->group[g], &b)) {
    err = mr_fn_return(b.fn, b.n_out, b.inner);
    if (err >= 0) s->group[g].e = fuse_emit(s, g, &b);
  }
  if (err < 0) mr_diag_relay(&s->f->diag, err, &b.fn->diag);
  mr_fn_destroy(b.fn);
  return s->f->diag.code;
}

/* Forms the fused equations while all others keep their places, then rewrites the list. */
static mr_err_t fuse_rewrite(fuser_t *s) {
  for (int g = 0; g < s->n_group; g++)
    if (root(s, g) == g && s->group[g].n_member > 0) MR_TRY(form(s, g));
  s->f->n_eqn = 0;
  for (int i = 0; i < s->n_eqn; i++) {
    int g = group_of(s, i);
    mr_eqn_t *whole = g < 0 ? NULL : s->group[g].e;
    if (!whole) s->f->eqn[s->f->n_eqn++] = s->eqn[i];
    if (whole && s->group[g].last == i) s->f->eqn[s->f->n_eqn++] = whole;
  }
  mr_dce(s->f); /* broadcasts that all readers have copied */
  return MR_OK;
}

mr_err_t mr_fuse(mr_fn_t *f, const mr_target_t *t, mr_diag_t *diag) {
  size_t n = (size_t)f->n_eqn + 1, v = (size_t)f->n_var + 1;
  fuser_t s = {.f = f, .t = t, .n_eqn = f->n_eqn, .n_var = f->n_var};
  s.eqn = calloc(n, sizeof *s.eqn);
  s.of = calloc(n + 2 * v, sizeof *s.of);
  s.group = calloc(n, sizeof *s.group);
  s.map = calloc(v, sizeof *s.map);
  mr_err_t e = MR_ERR_NOMEM;
  if (s.eqn && s.of && s.group && s.map) {
    if (f->n_eqn) memcpy(s.eqn, f->eqn, (n - 1) * sizeof *s.eqn);
    s.at = s.of + n, s.uses = s.at + v;
    for (size_t i = 0; i < v; i++) s.at[i] = -1;
    fuse_find_groups(&s);
    e = fuse_rewrite(&s);
  }
  free(s.eqn), free(s.of), free(s.group), free(s.map);
  return e < 0 && f->diag.code >= 0 ? mr_no_memory(diag, "fuse") : mr_diag_relay(diag, e, &f->diag);
}
