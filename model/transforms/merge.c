/* Products that share an operand become one: x A, x B -> slices of x [A|B].

   Joining the matrices on each run and slicing the result cost copies, so it is faster in two cases
   only (measured on 2 cores with AVX-512):
   - products with so few columns that most of a vector stays empty take half the time or less;
   - before mr_grad, if the results are q, k and v of one attention, which reads them side by side.
     The forward pass takes as long as before, but backward x's cotangent is one product instead of
     three and their sum, and the weights' cotangents are one product: 3 to 12 % of both passes. */
#include <stdlib.h>
#include <string.h>

#include "model/ops/lax.h"
#include "model/ops/operands.h"
#include "model/ops/rules.h"
#include "model/transforms/build.h"
#include "model/transforms/passes.h"
#include "model/transforms/transforms.h"

/* MEMBERS: of a group.  DEPTH: of the equations that are moved up to compute a weight earlier.
   REACH: equations between two products of a group. */
enum { MEMBERS = 8, DEPTH = 4, REACH = 400 };

typedef struct group {
  int n, member[MEMBERS]; /* equations; ascending unless ordered for an attention */
  int first;
  int attention; /* the attention that reads them all, or -1 */
} group_t;

typedef struct merger {
  mr_fn_t *f;
  bool grad_follows;
  mr_eqn_t **eqn; /* [n_eqn] the equations before */
  int n_eqn;
  int *at;    /* by var id: the equation that assigns it, -1 */
  int *uses;  /* by var id: readers, outputs of the graph included */
  int *user;  /* by var id: the last of them, -1 */
  int *of;    /* [n_eqn]: the group of a product, -1 */
  bool *done; /* [n_eqn]: is in the new list, or has been replaced */
  group_t *group;
  int n_group;
} merger_t;

/* Whether e multiplies x (..., K) by a matrix (K, N), or (N, K) where the op says so. */
static bool merge_is_transposed(const mr_eqn_t *e) {
  const mr_attr_t *transposed = mr_attr_find(e, "transposed");
  return transposed && transposed->i[0];
}

static bool is_product(const mr_eqn_t *e) {
  mr_side_t x, w;
  if (!e->op->fuse.sides || e->in[1]->aval.ndim != 2) return false;
  e->op->fuse.sides(e, &x, &w);
  return !x.n_batch && x.n_contract == 1 && x.contract[0] == e->in[0]->aval.ndim - 1 &&
         w.contract[0] == merge_is_transposed(e) &&
         (mr_attr_find(e, "transposed") || e->in[0]->aval.ndim > 1);
}

static int64_t count_product_columns(const mr_eqn_t *e) {
  const mr_aval_t *y = &e->out[0]->aval;
  return y->dim[y->ndim - 1];
}

static bool merge_alike(const mr_eqn_t *a, const mr_eqn_t *b) {
  return a->op == b->op && a->in[0] == b->in[0] && a->n_in == b->n_in &&
         merge_is_transposed(a) == merge_is_transposed(b) &&
         mr_precision_of(a) == mr_precision_of(b) && a->in[1]->aval.dtype == b->in[1]->aval.dtype &&
         a->out[0]->aval.dtype == b->out[0]->aval.dtype;
}

/* Whether v can be computed before equation i: it is, or it takes at most DEPTH steps from values
   that are, none of them a product, which might be merged itself. */
static bool merge_ready(const merger_t *m, const mr_var_t *v, int i, int depth) {
  int at = m->at[v->id];
  if (at < i) return true;
  if (depth == DEPTH || is_product(m->eqn[at])) return false;
  for (int k = 0; k < m->eqn[at]->n_in; k++)
    if (!merge_ready(m, m->eqn[at]->in[k], i, depth + 1)) return false;
  return true;
}

static bool may_join(const merger_t *m, int i, int k) {
  const mr_eqn_t *a = m->eqn[i], *b = m->eqn[k];
  if (m->of[k] >= 0 || !is_product(b) || !merge_alike(a, b)) return false;
  for (int j = 1; j < b->n_in; j++)
    if (!merge_ready(m, b->in[j], i, 0)) return false;
  return true;
}

/* ---- groups worth merging ---- */
/* The way of a product's result, each value read by one equation alone, to where q, k and v side by
   side save copies. */
static const mr_op_def_t *const to_attention[] = {&mr_op_reshape, &mr_op_attention};
enum { WAY = sizeof to_attention / sizeof *to_attention };

/* Returns the attention to which that way leads from v, as (B,T,H,D), and sets *place to its
   operand; -1: none. */
static int attention_of(const merger_t *m, const mr_var_t *v, int *place) {
  const mr_var_t *heads = v;
  int reader = -1;
  for (int i = 0; i < WAY; i++) {
    if (i) heads = m->eqn[reader]->out[0];
    reader = m->user[heads->id];
    if (m->uses[heads->id] != 1 || reader < 0 || m->eqn[reader]->op != to_attention[i]) return -1;
  }
  const mr_eqn_t *e = m->eqn[reader];
  const mr_aval_t *x = &v->aval, *y = &heads->aval;
  bool fits = e->n_in == 3 && x->ndim == 3 && y->ndim == 4 && y->dim[0] == x->dim[0] &&
              y->dim[1] == x->dim[1];
  for (int k = 0; fits && k < 3; k++)
    if (e->in[k] == heads) *place = k;
  return fits ? reader : -1;
}

/* Reduces g to the three products of one attention, in its order; false if g has no such three. */
static bool feeds_attention(const merger_t *m, group_t *g) {
  int member[3] = {-1, -1, -1}, a = -1;
  for (int k = 0; k < g->n; k++) {
    int place = 0, of = attention_of(m, m->eqn[g->member[k]]->out[0], &place);
    if (of < 0 || (a >= 0 && of != a)) continue;
    a = of;
    member[place] = g->member[k];
  }
  if (member[0] < 0 || member[1] < 0 || member[2] < 0) return false;
  g->n = 3, g->attention = a;
  memcpy(g->member, member, sizeof member);
  return true;
}

/* ROWS, TERMS: sizes from which reading x once outweighs the slices.  LANES: columns that a vector
   computes at a time.  CACHED: elements of joined matrices that fit the second-level cache. */
enum { ROWS = 512, TERMS = 256, LANES = 16, CACHED = 1 << 19 };

static int64_t count_terms(const mr_eqn_t *e) {
  return e->in[0]->aval.dim[e->in[0]->aval.ndim - 1];
}

static int64_t count_product_rows(const mr_eqn_t *e) {
  return mr_aval_span(&e->in[0]->aval, 0, e->in[0]->aval.ndim - 1);
}

static int64_t count_vectors(int64_t columns) { return (columns + LANES - 1) / LANES; }

/* Whether merging saves at least a third of the vectors of large enough products. */
static bool fills_vectors(const merger_t *m, const group_t *g) {
  const mr_eqn_t *e = m->eqn[g->first];
  int64_t sum = 0, apart = 0;
  for (int k = 0; k < g->n; k++) {
    sum += count_product_columns(m->eqn[g->member[k]]);
    apart += count_vectors(count_product_columns(m->eqn[g->member[k]]));
  }
  return count_product_rows(e) >= ROWS && count_terms(e) >= TERMS &&
         3 * (apart - count_vectors(sum)) >= apart && sum;
}

static bool merge_pays(const merger_t *m, group_t *g) {
  const mr_eqn_t *e = m->eqn[g->first];
  group_t fed = *g;
  if (m->grad_follows && feeds_attention(m, &fed) && count_product_rows(e) >= 2 * count_terms(e) &&
      3 * count_product_columns(m->eqn[fed.member[0]]) * count_terms(e) <= CACHED) {
    *g = fed;
    return true;
  }
  return fills_vectors(m, g);
}

/* Forms the group that begins with product i, if it is worth merging. */
static void find_group(merger_t *m, int i) {
  group_t g = {.first = i, .attention = -1};
  g.member[g.n++] = i;
  for (int k = i + 1; k < m->n_eqn && k - i <= REACH && g.n < MEMBERS; k++)
    if (may_join(m, i, k)) g.member[g.n++] = k;
  if (g.n < 2 || !merge_pays(m, &g)) return;
  g.first = g.member[0];
  for (int k = 0; k < g.n; k++) {
    m->of[g.member[k]] = m->n_group;
    if (g.member[k] < g.first) g.first = g.member[k];
  }
  m->group[m->n_group++] = g;
}

static void merge_find_groups(merger_t *m) {
  const mr_fn_t *f = m->f;
  for (int v = 0; v < f->n_var; v++) m->at[v] = m->user[v] = -1;
  for (int i = 0; i < m->n_eqn; i++) {
    const mr_eqn_t *e = m->eqn[i];
    m->of[i] = -1;
    for (int k = 0; k < e->n_out; k++) m->at[e->out[k]->id] = i;
    for (int k = 0; k < e->n_in; k++) m->uses[e->in[k]->id]++, m->user[e->in[k]->id] = i;
  }
  for (int i = 0; i < f->n_out; i++) m->uses[f->out[i]->id]++;
  for (int i = 0; i < m->n_eqn; i++)
    if (m->of[i] < 0 && is_product(m->eqn[i])) find_group(m, i);
}

/* ---- one group as a product ---- */
/* Appends the equation that computes v to the new list, after those that it needs. */
static mr_err_t place_equation(merger_t *m, mr_var_t *v) {
  int i = m->at[v->id];
  if (i < 0 || m->done[i]) return MR_OK;
  m->done[i] = true;
  for (int k = 0; k < m->eqn[i]->n_in; k++) MR_TRY(place_equation(m, m->eqn[i]->in[k]));
  return mr__keep(m->f, m->eqn[i]);
}

static bool converts_like(const mr_var_t *v, const mr_var_t *like) {
  return v->def && mr__is_conversion(v->def) &&
         v->def->in[0]->aval.dtype == like->def->in[0]->aval.dtype;
}

/* Returns operand k of all members side by side, NULL on failure.  Operands that are all
   conversions are joined before converting, so that the gradient is sliced in the wider dtype. */
static mr_var_t *merge_join_operands(merger_t *m, const group_t *g, int k, int dimension) {
  mr_var_t *v[MEMBERS] = {0};
  mr_var_t *first = m->eqn[g->member[0]]->in[k];
  bool wide = first->def && mr__is_conversion(first->def);
  for (int j = 0; j < g->n; j++) {
    v[j] = m->eqn[g->member[j]]->in[k];
    wide = wide && converts_like(v[j], first);
  }
  for (int j = 0; j < g->n; j++) {
    if (wide) v[j] = v[j]->def->in[0];
    if (place_equation(m, v[j]) < 0) return NULL;
  }
  mr_var_t *all = mr_lax_concatenate(m->f, g->n, v, dimension);
  return wide ? mr_lax_convert(m->f, all, first->aval.dtype) : all;
}

/* Assigns each member's result, the same var as before, by a slice of the product. */
static mr_err_t merge_slice_results(merger_t *m, const group_t *g, mr_var_t *all) {
  int64_t start[MR_MAX_NDIM] = {0}, limit[MR_MAX_NDIM];
  int last = all->aval.ndim - 1;
  for (int i = 0; i <= last; i++) limit[i] = all->aval.dim[i];
  for (int k = 0; k < g->n; k++) {
    mr_var_t *y = m->eqn[g->member[k]]->out[0];
    limit[last] = start[last] + y->aval.dim[last];
    mr_var_t *part = mr_lax_slice(m->f, all, start, limit);
    if (!part) return m->f->diag.code;
    part->def->out[0] = y;
    y->def = part->def;
    start[last] = limit[last];
  }
  return MR_OK;
}

/* The attention reads q, k and v (B,T,3,H,D) directly from the product. */
static mr_err_t merge_attend(merger_t *m, const group_t *g, mr_var_t *all) {
  mr_fn_t *f = m->f;
  mr_eqn_t *e = m->eqn[g->attention];
  const int64_t *q = e->in[0]->aval.dim;
  all = mr_lax_reshape_to(f, all, q[0], q[1], 3, q[2], q[3]);
  mr_eqn_t *packed = mr_emit(f, e->op, 1, &all, e->n_attr, e->attr, e->n_out);
  for (int k = 0; packed && k < e->n_out; k++) {
    packed->out[k] = e->out[k];
    e->out[k]->def = packed;
  }
  m->done[g->attention] = true;
  return f->diag.code;
}

static mr_err_t merge_merge(merger_t *m, const group_t *g) {
  mr_fn_t *f = m->f;
  const mr_eqn_t *e = m->eqn[g->first];
  mr_var_t *in[3] = {e->in[0]};
  mr_origin_t before = mr_origin(f);
  mr_origin_from(f, e, "merge-products");
  MR_TRY(place_equation(m, in[0]));
  in[1] = merge_join_operands(m, g, 1, merge_is_transposed(e) ? 0 : 1);
  if (e->n_in == 3) in[2] = merge_join_operands(m, g, 2, 0);
  if (f->diag.code < 0) return f->diag.code;
  mr_eqn_t *all = mr_emit(f, e->op, e->n_in, in, e->n_attr, e->attr, 1);
  mr_err_t err = !all                ? f->diag.code
                 : g->attention >= 0 ? merge_attend(m, g, all->out[0])
                                     : merge_slice_results(m, g, all->out[0]);
  for (int k = 0; k < g->n; k++) m->done[g->member[k]] = true;
  mr_origin_set(f, before);
  return err;
}

static mr_err_t merge_rewrite(merger_t *m) {
  m->f->n_eqn = 0;
  for (int i = 0; i < m->n_eqn; i++) {
    if (m->of[i] >= 0 && !m->done[i]) MR_TRY(merge_merge(m, &m->group[m->of[i]]));
    if (m->done[i]) continue;
    m->done[i] = true;
    MR_TRY(mr__keep(m->f, m->eqn[i]));
  }
  return MR_OK;
}

static int count_products(const mr_fn_t *f) {
  int n = 0;
  for (int i = 0; i < f->n_eqn; i++) n += is_product(f->eqn[i]);
  return n;
}

static mr_err_t merge_products(mr_fn_t *f, bool grad_follows, mr_diag_t *diag) {
  if (count_products(f) < 2) return MR_OK;
  MR_TRY(mr_cse(f, diag)); /* merges conversions of one x */
  size_t n = (size_t)f->n_eqn + 1, v = (size_t)f->n_var + 1;
  merger_t m = {.f = f, .grad_follows = grad_follows, .n_eqn = f->n_eqn};
  m.eqn = calloc(n, sizeof *m.eqn);
  m.at = calloc(3 * v + n, sizeof *m.at);
  m.done = calloc(n, sizeof *m.done);
  m.group = calloc(n, sizeof *m.group);
  mr_err_t e = MR_ERR_NOMEM;
  if (m.eqn && m.at && m.done && m.group) {
    memcpy(m.eqn, f->eqn, (n - 1) * sizeof *m.eqn);
    m.uses = m.at + v, m.user = m.uses + v, m.of = m.user + v;
    merge_find_groups(&m);
    e = m.n_group ? merge_rewrite(&m) : MR_OK;
  }
  free(m.eqn), free(m.at), free(m.done), free(m.group);
  mr_dce(f);
  return e < 0 && f->diag.code >= 0 ? mr_no_memory(diag, "merge-products")
                                    : mr_diag_relay(diag, e, &f->diag);
}

mr_err_t mr_merge_products(mr_fn_t *f, mr_diag_t *diag) { return merge_products(f, false, diag); }

mr_err_t mr_merge_before_grad(mr_fn_t *f, mr_diag_t *diag) { return merge_products(f, true, diag); }
