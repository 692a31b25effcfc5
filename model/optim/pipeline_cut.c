/* Where a loss is cut into stages, and what a stage computes.  Of each value the line knows the
   parameters that it depends on, as the first and the last, and whether it depends on data.  Values
   of data and parameters move along the line; all others (a cast of a parameter, keys of draws,
   pictures from bytes) are computed by each stage that reads them. */
#include <assert.h>
#include <stdlib.h>

#include "model/ops/operands.h"
#include "model/optim/pipeline.h"

/* What a value depends on: parameters in [lo,hi], lo > hi: none. */
typedef struct reach {
  int lo, hi;
  bool data;
} reach_t;

struct mr_pipeline_line {
  const mr_fn_t *f;
  int n_data;
  reach_t *reach; /* [n_var] by var id */
  int *last;      /* [n_var] the last equation that reads it; n_eqn: an output; -1: none */
};

static const reach_t nowhere = {.lo = INT32_MAX, .hi = -1};

static void reach_add(reach_t *r, const reach_t *more) {
  if (more->lo < r->lo) r->lo = more->lo;
  if (more->hi > r->hi) r->hi = more->hi;
  r->data |= more->data;
}

/* Whether a value moves along the line. */
static bool line_moves(const mr_pipeline_line_t *l, const mr_var_t *v) {
  const reach_t *r = &l->reach[v->id];
  return r->data && r->hi >= 0;
}

static bool line_has(const mr_pipeline_line_t *l, const mr_eqn_t *e) {
  return e->n_out && line_moves(l, e->out[0]);
}

static void line_fill(mr_pipeline_line_t *l) {
  const mr_fn_t *f = l->f;
  for (int v = 0; v < f->n_var; v++) l->reach[v] = nowhere, l->last[v] = -1;
  for (int i = 0; i < f->n_in; i++) {
    int p = i - l->n_data;
    l->reach[f->in[i]->id] = p < 0 ? (reach_t){INT32_MAX, -1, true} : (reach_t){p, p, false};
  }
  for (int i = 0; i < f->n_eqn; i++) {
    const mr_eqn_t *e = f->eqn[i];
    reach_t all = nowhere;
    for (int k = 0; k < e->n_in; k++) {
      if (e->in[k]->literal) continue;
      reach_add(&all, &l->reach[e->in[k]->id]);
      l->last[e->in[k]->id] = i;
    }
    for (int k = 0; k < e->n_out; k++) l->reach[e->out[k]->id] = all;
  }
  for (int i = 0; i < f->n_out; i++)
    if (!f->out[i]->literal) l->last[f->out[i]->id] = f->n_eqn;
}

mr_err_t mr_pipeline_line(const mr_fn_t *f, int n_data, mr_pipeline_line_t **out, mr_diag_t *diag) {
  size_t n = (size_t)f->n_var + 1;
  mr_pipeline_line_t *l = calloc(1, sizeof *l);
  if (l) l->f = f, l->n_data = n_data;
  if (l) l->reach = calloc(n, sizeof *l->reach), l->last = calloc(n, sizeof *l->last);
  if (!l || !l->reach || !l->last) {
    mr_pipeline_line_destroy(l);
    return mr_no_memory(diag, "the stages of a pipeline");
  }
  line_fill(l);
  return *out = l, MR_OK;
}

void mr_pipeline_line_destroy(mr_pipeline_line_t *l) {
  if (!l) return;
  free(l->reach);
  free(l->last);
  free(l);
}

double mr_pipeline_flop(const mr_pipeline_line_t *l, int from, int to) {
  double flop = 0;
  for (int i = from; i < to; i++)
    if (line_has(l, l->f->eqn[i])) flop += mr_cost_of(l->f->eqn[i]).flop;
  return flop;
}

/* ---- the place of a cut ---- */

/* The parameters that equation i, of the line, reads beside what moves along it. */
static reach_t line_reads(const mr_pipeline_line_t *l, int i) {
  const mr_eqn_t *e = l->f->eqn[i];
  reach_t r = nowhere;
  for (int k = 0; k < e->n_in; k++)
    if (!e->in[k]->literal && !line_moves(l, e->in[k])) reach_add(&r, &l->reach[e->in[k]->id]);
  return r;
}

/* What crosses a place: how many values, and the first two of them. */
typedef struct crossing {
  int n;
  const mr_var_t *x[2];
} crossing_t;

static crossing_t crossing_at(const mr_pipeline_line_t *l, int at) {
  crossing_t c = {0};
  for (int i = 0; i < at; i++) {
    const mr_eqn_t *e = l->f->eqn[i];
    for (int k = 0; line_has(l, e) && k < e->n_out; k++) {
      if (l->last[e->out[k]->id] < at) continue;
      if (c.n < 2) c.x[c.n] = e->out[k];
      c.n++;
    }
  }
  return c;
}

static const char *scope_of(const mr_var_t *v) {
  return v && v->def && *v->def->scope ? v->def->scope : "the model itself";
}

static mr_err_t crossing_fail(const crossing_t *c, mr_diag_t *diag) {
  char a[MR_AVAL_TEXT], b[MR_AVAL_TEXT];
  if (!c->n) return mr_fail(diag, MR_ERR_CONFIG, "no value goes from what is before to the rest");
  return mr_fail(diag, MR_ERR_CONFIG,
                 "%d values cross it, such as %s of %s and %s of %s: it is inside a residual or a "
                 "branch, want a cut between whole layers",
                 c->n, mr_aval_text(&c->x[0]->aval, a), scope_of(c->x[0]),
                 mr_aval_text(&c->x[1]->aval, b), scope_of(c->x[1]));
}

mr_err_t mr_pipeline_cut(const mr_pipeline_line_t *l, int param, mr_pipeline_cut_t *out,
                         mr_diag_t *diag) {
  const mr_fn_t *f = l->f;
  int low = 0, high = f->n_eqn;
  for (int i = f->n_eqn - 1; i >= 0; i--) {
    if (!line_has(l, f->eqn[i])) continue;
    reach_t r = line_reads(l, i);
    if (r.hi >= param) high = i;
    if (r.lo < param && i >= low) low = i + 1;
  }
  if (low > high)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "%s reads parameters of the next stage before the last of this one",
                   *f->eqn[high]->scope ? f->eqn[high]->scope : "the model");
  crossing_t worst = {0};
  mr_pipeline_cut_t best = {0};
  for (int at = low; at <= high; at++) {
    crossing_t c = crossing_at(l, at);
    if (c.n != 1) {
      if (!worst.n || c.n < worst.n) worst = c;
    } else if (!best.x || mr_aval_bytes(&c.x[0]->aval) < mr_aval_bytes(&best.x->aval)) {
      best = (mr_pipeline_cut_t){at, c.x[0]};
    }
  }
  if (!best.x) return crossing_fail(&worst, diag);
  return *out = best, MR_OK;
}

/* ---- a stage ---- */

/* Where stage s begins and ends; what it receives and what it sends, NULL: nothing. */
typedef struct piece {
  int from, to;
  const mr_var_t *x, *y;
} piece_t;

static mr_err_t piece_of_stage(const mr_pipeline_line_t *l, const mr_pipeline_t *p, int s,
                               piece_t *out, mr_diag_t *diag) {
  mr_pipeline_cut_t before = {0}, after = {.at = l->f->n_eqn};
  if (s) MR_TRY(mr_pipeline_cut(l, p->first[s], &before, diag));
  if (s + 1 < p->stages) MR_TRY(mr_pipeline_cut(l, p->first[s + 1], &after, diag));
  if (after.at < before.at)
    return mr_fail(diag, MR_ERR_CONFIG, "stage %d ends before it begins", s);
  *out = (piece_t){before.at, after.at, before.x, after.x};
  return MR_OK;
}

/* Marks by var id what the piece reads that does not move along the line, all the way back. */
static void mark_needed(const mr_pipeline_line_t *l, const piece_t *c, bool *needed) {
  const mr_fn_t *f = l->f;
  for (int k = 0; !c->y && k < f->n_out; k++) needed[f->out[k]->id] = true;
  for (int i = c->to - 1; i >= 0; i--) {
    const mr_eqn_t *e = f->eqn[i];
    bool need = line_has(l, e) && i >= c->from;
    for (int k = 0; !line_has(l, e) && k < e->n_out; k++) need |= needed[e->out[k]->id];
    for (int k = 0; need && k < e->n_in; k++) needed[e->in[k]->id] = true;
    if (need && e->n_out) needed[e->out[0]->id] = true;
  }
}

static mr_err_t inline_piece(mr_fn_t *g, const mr_pipeline_line_t *l, const piece_t *c,
                             mr_var_t **map, mr_var_t **out) {
  const mr_fn_t *f = l->f;
  bool *needed = mr_mem_take(&g->mem, (size_t)f->n_var + 1);
  if (!needed) return g->diag.code;
  for (int v = 0; v < f->n_var; v++) needed[v] = false;
  mark_needed(l, c, needed);
  for (int i = 0; i < c->to; i++) {
    mr_eqn_t e = *f->eqn[i];
    bool take = line_has(l, &e) ? i >= c->from : false;
    for (int k = 0; !line_has(l, &e) && k < e.n_out; k++) take |= needed[e.out[k]->id];
    if (!take) continue;
    e.scope = mr_scope_within(&g->mem, g->scope, e.scope);
    if (!e.scope) return g->diag.code;
    MR_TRY(mr__copy_eqn(g, &e, map));
  }
  if (c->y) return *out = mr__mapped(g, map, c->y), MR_OK;
  for (int k = 0; k < f->n_out; k++) out[k] = mr__mapped(g, map, f->out[k]);
  return MR_OK;
}

mr_err_t mr_pipeline_inline(mr_fn_t *g, const mr_fn_t *f, int n_data, const mr_pipeline_t *p, int s,
                            mr_var_t *const *in, mr_var_t *x, mr_var_t **out) {
  mr_pipeline_line_t *l = NULL;
  piece_t c = {0};
  if (g->diag.code < 0) return g->diag.code;
  MR_TRY(mr_pipeline_line(f, n_data, &l, &g->diag));
  mr_var_t **map = calloc((size_t)f->n_var + 1, sizeof *map);
  mr_err_t e =
      map ? piece_of_stage(l, p, s, &c, &g->diag) : mr_no_memory(&g->diag, "a stage of a pipeline");
  for (int i = 0; i < f->n_in && e >= 0; i++) map[f->in[i]->id] = in[i];
  if (e >= 0 && c.x) map[c.x->id] = x;
  if (e >= 0) e = inline_piece(g, l, &c, map, out);
  free(map);
  mr_pipeline_line_destroy(l);
  return e;
}

mr_err_t mr_pipeline_sent(const mr_fn_t *f, int n_data, const mr_pipeline_t *p, int s,
                          mr_aval_t *out, mr_diag_t *diag) {
  mr_pipeline_line_t *l = NULL;
  mr_pipeline_cut_t c;
  MR_TRY(mr_pipeline_line(f, n_data, &l, diag));
  mr_err_t e = mr_pipeline_cut(l, p->first[s + 1], &c, diag);
  if (e >= 0) *out = c.x->aval;
  mr_pipeline_line_destroy(l);
  return e;
}
