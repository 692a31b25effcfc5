/* Chains of elementwise ops, and reductions of their results over trailing or leading dimensions,
   become one op: a loop over blocks that stay in the first-level cache, or a kernel of a device.

   Where the target has rows (mr_target_t.rows), a chain continues past the sums of its rows.  A
   group then holds values of two sizes: of n elements, and of one element for each row.  It may
   also sum its columns, for readers outside, also those of an operand that it reads anyway.

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
  bool columns;     /* reductions fold rows into one, and none folds a row */
  bool closed;
  const mr_var_t *end[MR_LOOP_ENDS]; /* operands that no member computes; counted with rows alone */
  int n_end;
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

static int group_root(const fuser_t *s, int g) {
  while (g >= 0 && s->group[g].into != g) g = s->group[g].into;
  return g;
}

static int group_of(const fuser_t *s, int i) { return i < 0 ? -1 : group_root(s, s->of[i]); }

static bool fuse_unit_of(const mr_eqn_t *e, mr_unit_t *u) {
  *u = (mr_unit_t){0};
  return e->op->fuse.unit && e->n_out == 1 && e->n_in <= MR_UNIT_IN && e->op->fuse.unit(e, u) &&
         (!e->n_in || fuse_elems(e->in[0])) && fuse_elems(e->out[0]);
}

/* ---- rows ---- */
/* Returns the number of rows of a group that may continue past their sums, 0 for other groups. */
static int64_t group_rows(const fuser_t *s, int g) {
  const group_t *x = g < 0 ? NULL : &s->group[g];
  if (!x || !x->inner || x->columns || !s->t->rows) return 0;
  return s->t->rows(x->n / x->inner, x->inner) ? x->n / x->inner : 0;
}

/* Whether v is a sum of columns, which no member of its group reads. */
static bool sums_columns(const mr_var_t *v) {
  mr_unit_t u;
  return v->def && fuse_unit_of(v->def, &u) && u.kind == MR_UNIT_COLUMNS;
}

/* Returns the group whose rows v spreads: v is the broadcast, along each row, of a value that the
   group has for each row.  Members of the group copy v's equation; -1 if v is something else. */
static int spreads_rows_of(const fuser_t *s, const mr_var_t *v) {
  mr_unit_t u;
  int g = v->def && v->def->n_in ? group_of(s, s->at[v->def->in[0]->id]) : -1;
  int64_t rows = group_rows(s, g);
  if (!rows || !fuse_unit_of(v->def, &u) || u.kind != MR_UNIT_REPEAT) return -1;
  if (sums_columns(v->def->in[0])) return -1;
  return u.mid == rows && u.inner == s->group[g].inner && fuse_elems(v) == s->group[g].n ? g : -1;
}

/* The group that computes v, or whose rows it spreads. */
static int source_of(const fuser_t *s, const mr_var_t *v) {
  int g = spreads_rows_of(s, v);
  return g < 0 ? group_of(s, s->at[v->id]) : g;
}

/* ---- operands ---- */
static bool is_repeat(const mr_var_t *v) {
  mr_unit_t u;
  if (!v->def || !fuse_unit_of(v->def, &u)) return false;
  return u.kind == MR_UNIT_INDEX ||
         (u.kind == MR_UNIT_REPEAT && fuse_elems(v->def->in[0]) != fuse_elems(v));
}

/* Adds the operands of a loop that e needs to end[0,n) and returns how many there are then; more
   than the target's limit: they do not fit.  e may be a member of groups a and b. */
static int add_ends(const fuser_t *s, const mr_eqn_t *e, int a, int b, const mr_var_t **end,
                    int n) {
  for (int k = 0; k < e->n_in && n <= s->t->loop_ends; k++) {
    const mr_var_t *v = e->in[k];
    int g = source_of(s, v), at = 0;
    if (g >= 0 && (g == a || g == b)) continue;
    if (is_repeat(v)) v = v->def->n_in ? v->def->in[0] : NULL;
    if (!v || v->literal) continue;
    while (at < n && end[at] != v) at++;
    if (at < n) continue;
    if (n < s->t->loop_ends) end[n] = v;
    n++;
  }
  return n;
}

/* Whether a loop of groups a and b, -1 for none, and e has few enough operands.  Only rows make
   groups so large that the limit matters; elsewhere a loop past it is not made at all. */
static bool ends_fit(const fuser_t *s, int a, int b, const mr_eqn_t *e) {
  const mr_var_t *end[MR_LOOP_ENDS];
  const int group[] = {a, b};
  int n = 0;
  if (!s->t->rows) return true;
  for (int j = 0; j < 2; j++) {
    const group_t *x = group[j] < 0 ? NULL : &s->group[group[j]];
    for (int i = 0; x && i < x->n_end; i++) {
      int at = 0;
      while (at < n && end[at] != x->end[i]) at++;
      if (at == n && n == s->t->loop_ends) return false;
      if (at == n) end[n++] = x->end[i];
    }
  }
  return add_ends(s, e, a, b, end, n) <= s->t->loop_ends;
}

/* ---- groups ---- */
/* Returns the open group that computes operand v, if an op on n elements may join it; -1 if not. */
static int find_candidate(const fuser_t *s, const mr_var_t *v, int i, int64_t n) {
  int g = source_of(s, v);
  if (g < 0) return -1;
  const group_t *x = &s->group[g];
  bool fits = x->n == n || group_rows(s, g) == n;
  return !x->closed && fits && i - x->last <= REACH && x->n_member < MEMBERS ? g : -1;
}

/* Whether reductions of x, and others of `inner` elements, may be made by one loop: of one kind, or
   sums of columns beside those of rows past which the loop may continue. */
static bool same_rows(const fuser_t *s, const group_t *x, int64_t inner, bool columns) {
  if (!x->inner || !inner) return true;
  if (x->inner != inner || x->columns == columns) return x->inner == inner;
  return s->t->rows && x->n / inner > 1 && s->t->rows(x->n / inner, inner);
}

static void add_reduction(group_t *x, int64_t inner, bool columns) {
  x->columns = columns && (!x->inner || x->columns);
  x->inner = inner;
}

/* Whether group b may become part of a: a loop of the same elements, or a loop without sums over
   what a has once for each row. */
static bool fits_together(const fuser_t *s, int a, int b) {
  const group_t *x = &s->group[a], *y = &s->group[b];
  bool same = x->n == y->n && same_rows(s, x, y->inner, y->columns);
  return x->n_member + y->n_member < MEMBERS && (same || (group_rows(s, a) == y->n && !y->inner));
}

static void fuse_merge(fuser_t *s, int a, int b) {
  group_t *x = &s->group[a], *y = &s->group[b];
  if (y->first < x->first) x->first = y->first;
  if (y->last > x->last) x->last = y->last;
  x->n_member += y->n_member;
  x->n_each += y->n_each;
  if (y->inner) add_reduction(x, y->inner, y->columns);
  for (int i = 0; i < y->n_end; i++) {
    int at = 0;
    while (at < x->n_end && x->end[at] != y->end[i]) at++;
    if (at == x->n_end && at < MR_LOOP_ENDS) x->end[x->n_end++] = y->end[i];
  }
  y->into = a;
}

/* Whether e, an op on n elements, reads a sum of group g that is complete only when the loop ends,
   so that e cannot be part of that loop.  A group that continues past its rows has the sum in time
   for ops on one value a row. */
static bool reads_sum(const fuser_t *s, const mr_eqn_t *e, int g, int64_t n) {
  int64_t rows = group_rows(s, g);
  for (int k = 0; k < e->n_in; k++) {
    int at = s->at[e->in[k]->id];
    if (group_of(s, at) != g || fuse_elems(e->in[k]) == s->group[g].n) continue;
    if (sums_columns(e->in[k])) return true;
    if (!rows || (n != rows && rows > 1)) return true;
  }
  return false;
}

/* Returns the group that e at i may join, after merging the groups of its operands; -1: none.
   Groups of n rows come before groups of n elements, as they close when e joins another. */
static int fuse_choose(fuser_t *s, const mr_eqn_t *e, int i, int64_t n) {
  int g = -1;
  for (int turn = 0; turn < 2 * e->n_in; turn++) {
    int k = turn % e->n_in, c = find_candidate(s, e->in[k], i, n);
    if (c < 0 || c == g || reads_sum(s, e, c, n)) continue;
    if (turn < e->n_in && s->group[c].n == n) continue;
    if (g < 0 && ends_fit(s, c, -1, e))
      g = c;
    else if (g >= 0 && fits_together(s, g, c) && ends_fit(s, g, c, e))
      fuse_merge(s, g, c);
  }
  return g;
}

/* Returns the group past whose sums of rows a loop continues, and which reads v, so that it may
   also sum v's columns of rows of `inner`; -1: none. */
static int reads_rows_of(const fuser_t *s, const mr_var_t *v, int64_t inner, int i) {
  for (int g = s->n_group - 1; g >= 0; g--) {
    const group_t *x = &s->group[g];
    if (x->into != g || x->closed || i - x->last > REACH || x->n_member >= MEMBERS) continue;
    if (x->n != fuse_elems(v) || x->inner != inner || group_rows(s, g) < 2) continue;
    for (int k = 0; k < x->n_end; k++)
      if (x->end[k] == v) return g;
  }
  return -1;
}

static int new_group(fuser_t *s, int i, int64_t n) {
  int g = s->n_group++;
  s->group[g] = (group_t){.first = i, .last = i, .n = n, .into = g};
  return g;
}

static int fuse_place(fuser_t *s, int i) {
  const mr_eqn_t *e = s->eqn[i];
  mr_unit_t u;
  if (!fuse_unit_of(e, &u) || u.kind == MR_UNIT_INDEX) return -1;
  bool same = s->t->rows && fuse_elems(e->in[0]) == fuse_elems(e->out[0]);
  if (u.kind == MR_UNIT_REPEAT && same) u.kind = MR_UNIT_SAME; /* adds dimensions of size 1 */
  if (u.kind == MR_UNIT_REPEAT) return -1;
  int64_t n =
      fuse_elems(e->in[0]) > fuse_elems(e->out[0]) ? fuse_elems(e->in[0]) : fuse_elems(e->out[0]);
  bool columns = u.kind == MR_UNIT_COLUMNS, folds = columns || u.kind == MR_UNIT_REDUCE;
  int g = fuse_choose(s, e, i, n);
  if (g < 0 && columns && s->t->rows) g = reads_rows_of(s, e->in[0], u.inner, i);
  /* A sum of a broadcast or counter alone is a loop too: there need be no such array. */
  bool alone = folds && g < 0 && !s->t->rows && u.inner > 1 && is_repeat(e->in[0]);
  if (u.kind != MR_UNIT_EACH && g < 0 && !alone) return -1;
  if (alone) g = new_group(s, i, n);
  if (folds && (s->group[g].n != n || !same_rows(s, &s->group[g], u.inner, columns))) return -1;
  if (g < 0) g = new_group(s, i, n);
  if (s->t->rows) {
    int ends = add_ends(s, e, g, -1, s->group[g].end, s->group[g].n_end);
    s->group[g].n_end = ends < s->t->loop_ends ? ends : s->t->loop_ends;
  }
  s->group[g].last = i;
  s->group[g].n_member++;
  s->group[g].n_each += u.kind == MR_UNIT_EACH;
  if (folds) add_reduction(&s->group[g], u.inner, columns);
  return g;
}

/* Closes the groups other than `mine` whose values e reads.  A broadcast along rows closes none
   itself: it is written behind the group, and what reads it is found here. */
static void close_others(fuser_t *s, const mr_eqn_t *e, int mine) {
  if (e->n_out == 1 && spreads_rows_of(s, e->out[0]) >= 0) return;
  for (int k = 0; k < e->n_in; k++) {
    int g = source_of(s, e->in[k]);
    if (g >= 0 && g != mine) s->group[g].closed = true;
  }
}

static void fuse_find_groups(fuser_t *s) {
  for (int i = 0; i < s->n_eqn; i++) {
    const mr_eqn_t *e = s->eqn[i];
    s->of[i] = fuse_place(s, i);
    close_others(s, e, group_root(s, s->of[i]));
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
static mr_var_t *widen_operand(fuser_t *s, body_t *b, const mr_eqn_t *e, mr_var_t *v) {
  mr_var_t *x = mr__mapped(b->fn, s->map, v);
  bool beside = e->op->amp.mixes && e->out[0]->aval.dtype == MR_F32;
  if (!beside || !mr_is_narrow(v->aval.dtype)) return x;
  mr_origin_t before = mr_origin(b->fn);
  mr_origin_from(b->fn, e, "fuse");
  x = mr_lax_convert(b->fn, x, MR_F32);
  mr_origin_set(b->fn, before);
  return x;
}

static void add_member(fuser_t *s, body_t *b, const mr_eqn_t *e) {
  mr_var_t *in[MR_UNIT_IN];
  for (int k = 0; k < e->n_in && !b->full; k++) add_operand(s, b, e->in[k]);
  for (int k = 0; k < e->n_in && !b->full; k++) in[k] = widen_operand(s, b, e, e->in[k]);
  mr_eqn_t *c = b->full ? NULL : mr_emit_like(b->fn, e, in);
  if (c) s->map[e->out[0]->id] = c->out[0];
  b->full |= b->fn->n_eqn > s->t->loop_eqns || b->fn->diag.code < 0;
}

static void add_members(fuser_t *s, int g, body_t *b) {
  for (int i = s->group[g].first; i <= s->group[g].last && !b->full; i++)
    if (group_of(s, i) == g) add_member(s, b, s->eqn[i]);
}

static int reads_of(const mr_eqn_t *e, const mr_var_t *v) {
  int n = 0;
  for (int k = 0; k < e->n_in; k++) n += e->in[k] == v;
  return n;
}

/* Reads of v by members of g, and by broadcasts that only members read. */
static int reads_inside(const fuser_t *s, int g, const mr_var_t *v) {
  int n = 0;
  for (int i = s->group[g].first; i <= s->group[g].last; i++) {
    const mr_eqn_t *e = s->eqn[i];
    int reads = reads_of(e, v);
    if (!reads) continue;
    bool spreads = e->n_out == 1 && spreads_rows_of(s, e->out[0]) == g;
    if (group_of(s, i) == g || (spreads && s->uses[e->out[0]->id] == reads_inside(s, g, e->out[0])))
      n += reads;
  }
  return n;
}

/* Returns the var of the body that has v's bytes: reshapes undone. */
static const mr_var_t *fuse_bytes_of(const mr_var_t *v) {
  while (v->def && v->def->op->kind == MR_OP_ALIAS && v->def->op->fuse.unit) v = v->def->in[0];
  return v;
}

/* Whether the body already returns a value with these bytes. */
static bool is_returned(const body_t *b, const mr_var_t *inner) {
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
    b->full |= b->n_out == s->t->loop_ends || is_returned(b, s->map[v->id]);
    if (b->full) return;
    b->inner[b->n_out] = s->map[v->id];
    b->out[b->n_out++] = v;
  }
}

static bool fuse_worth_it(const group_t *x, const body_t *b) {
  return (x->n_each || (x->inner && b->n_repeat)) && x->n_each + b->n_repeat + (x->inner > 0) > 1 &&
         b->n_out;
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

static void forget_vars(fuser_t *s, mr_var_t *const *v, int n) {
  for (int k = 0; k < n; k++) s->map[v[k]->id] = NULL;
}

/* Empties the map, of which a group has set no more than what its members read, by a copied
   broadcast too, and give: there may be as many groups as vars. */
static void forget_group(fuser_t *s, int g) {
  for (int i = s->group[g].first; i <= s->group[g].last; i++) {
    const mr_eqn_t *e = s->eqn[i];
    if (group_of(s, i) != g) continue;
    for (int k = 0; k < e->n_in; k++) {
      const mr_eqn_t *def = is_repeat(e->in[k]) ? e->in[k]->def : NULL;
      if (def) forget_vars(s, def->in, def->n_in);
    }
    forget_vars(s, e->in, e->n_in), forget_vars(s, e->out, e->n_out);
  }
}

static mr_err_t form_group(fuser_t *s, int g) {
  body_t b = {.fn = mr_fn_create()};
  if (!b.fn) return mr_no_memory(&s->f->diag, "fuse");
  add_members(s, g, &b);
  fuse_add_outputs(s, g, &b);
  forget_group(s, g);
  mr_err_t err = b.fn->diag.code;
  if (!b.full && err >= 0 && fuse_worth_it(&s->group[g], &b)) {
    err = mr_fn_return(b.fn, b.n_out, b.inner);
    if (err >= 0) s->group[g].e = fuse_emit(s, g, &b);
  }
  if (err < 0) mr_diag_relay(&s->f->diag, err, &b.fn->diag);
  mr_fn_destroy(b.fn);
  return s->f->diag.code;
}

/* Whether equation i spreads rows of a fused group that is written behind i. */
static bool waits_for(const fuser_t *s, int i, int g) {
  const mr_eqn_t *e = s->eqn[i];
  return e->n_out == 1 && s->of[i] < 0 && spreads_rows_of(s, e->out[0]) == g && s->group[g].e &&
         i < s->group[g].last;
}

static void write_group(fuser_t *s, int g) {
  s->f->eqn[s->f->n_eqn++] = s->group[g].e;
  for (int i = s->group[g].first; i < s->group[g].last; i++)
    if (waits_for(s, i, g)) s->f->eqn[s->f->n_eqn++] = s->eqn[i];
}

/* Forms the fused equations while all others keep their places, then rewrites the list. */
static mr_err_t fuse_rewrite(fuser_t *s) {
  for (int g = 0; g < s->n_group; g++)
    if (group_root(s, g) == g && s->group[g].n_member > 0) MR_TRY(form_group(s, g));
  s->f->n_eqn = 0;
  for (int i = 0; i < s->n_eqn; i++) {
    int g = group_of(s, i);
    bool fused = g >= 0 && s->group[g].e;
    int over = s->eqn[i]->n_out == 1 ? spreads_rows_of(s, s->eqn[i]->out[0]) : -1;
    if (!fused && !(over >= 0 && waits_for(s, i, over))) s->f->eqn[s->f->n_eqn++] = s->eqn[i];
    if (fused && s->group[g].last == i) write_group(s, g);
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
