/* A value in another placement: terms are summed or scattered, a dimension is gathered, or a device
   takes its part of what it has whole.  The equation on a device's parts of its operands is here
   too: a broadcast is rather written again for a part than cut. */
#include <string.h>

#include "model/control/control.h"
#include "model/partition/place.h"

int mr__parts_of(const mr_mesh_t *mesh, mr_axes_t axes) {
  int n = 1;
  for (int a = 0; a < mesh->n; a++)
    if (axes >> a & 1) n *= mesh->size[a];
  return n;
}

static int64_t blocks_of(const mr_placement_t *p, int d) { return p->outer[d] ? p->outer[d] : 1; }

static bool is_placed_alike(const mr_placement_t *a, const mr_placement_t *b) {
  if (a->partial != b->partial) return false;
  for (int d = 0; d < MR_MAX_NDIM; d++)
    if (a->axes[d] != b->axes[d] || (a->axes[d] && blocks_of(a, d) != blocks_of(b, d)))
      return false;
  return true;
}

/* x as rows: (before d and its blocks, the parts of a block, what is within a part). */
typedef struct rows {
  int64_t before, parts, within;
} rows_t;

static rows_t rows_to_cut(const mr_aval_t *a, int d, int64_t blocks, int64_t parts) {
  int64_t pieces = blocks * parts;
  return (rows_t){.before = mr_aval_span(a, 0, d) * blocks,
                  .parts = parts,
                  .within = (pieces ? a->dim[d] / pieces : 0) * mr_aval_span(a, d + 1, a->ndim)};
}

mr_var_t *mr__place_along(mr_cutter_t *c, mr_axes_t axes) {
  mr_fn_t *g = c->g;
  mr_var_t *at = NULL;
  for (int a = 0; a < c->mesh->n; a++) {
    if (!(axes >> a & 1)) continue;
    mr_var_t *i = mr_lax_axis_index(g, c->mesh->name[a]);
    if (at) at = mr_lax_mul(g, at, mr_literal_whole(g, MR_I32, c->mesh->size[a]));
    at = at ? mr_lax_add(g, at, i) : i;
  }
  return at;
}

/* The device's part of x, which is whole in dimension d. */
static mr_var_t *take_part(mr_cutter_t *c, mr_var_t *x, int d, mr_axes_t axes, int64_t blocks) {
  mr_fn_t *g = c->g;
  if (!x) return NULL;
  int parts = mr__parts_of(c->mesh, axes);
  mr_aval_t part = x->aval;
  rows_t r = rows_to_cut(&x->aval, d, blocks, parts);
  part.dim[d] /= parts;
  x = mr_lax_reshape_to(g, x, r.before, r.parts, r.within);
  if (r.before != 1) x = mr_lax_transpose(g, x, (int[]){1, 0, 2});
  if (r.before == 1) x = mr_lax_reshape_to(g, x, r.parts, r.before, r.within);
  x = mr_lax_take(g, x, mr__place_along(c, axes));
  return mr_lax_reshape(g, x, part.ndim, part.dim);
}

/* x, of which a device has a part of dimension d, whole.  The innermost axis first. */
static mr_var_t *gather_parts(mr_cutter_t *c, mr_var_t *x, int d, mr_axes_t axes, int64_t blocks) {
  mr_fn_t *g = c->g;
  for (int a = c->mesh->n - 1; a >= 0 && x; a--) {
    if (!(axes >> a & 1)) continue;
    mr_aval_t whole = x->aval;
    int64_t size = c->mesh->size[a];
    rows_t r = rows_to_cut(&x->aval, d, blocks, 1);
    whole.dim[d] *= size;
    x = mr_lax_reshape_to(g, x, r.before, r.within);
    x = mr_lax_all_gather(g, x, c->mesh->name[a], size);
    if (r.before != 1) x = mr_lax_transpose(g, x, (int[]){1, 0, 2});
    x = mr_lax_reshape(g, x, whole.ndim, whole.dim);
  }
  return x;
}

/* Sums terms along each axis that cuts a whole dimension of `want` alone: a device receives its
   part of such a sum, and no other.  Moves *at there. */
static mr_var_t *scatter_terms(mr_cutter_t *c, mr_var_t *x, mr_placement_t *at,
                               const mr_placement_t *want) {
  mr_fn_t *g = c->g;
  for (int d = 0; x && d < x->aval.ndim; d++) {
    mr_axes_t axis = want->axes[d];
    if (!axis || axis & (axis - 1) || at->axes[d] || !(at->partial & axis)) continue;
    mr_aval_t part = x->aval;
    int a = __builtin_ctz(axis), n = c->mesh->size[a];
    rows_t r = rows_to_cut(&x->aval, d, blocks_of(want, d), n);
    part.dim[d] /= n;
    x = mr_lax_reshape_to(g, x, r.before, r.parts, r.within);
    if (r.before != 1) x = mr_lax_transpose(g, x, (int[]){1, 0, 2});
    x = mr_lax_reshape_to(g, x, r.parts, r.before * r.within);
    x = mr_lax_psum_scatter(g, x, c->mesh->name[a]);
    x = mr_lax_reshape(g, x, part.ndim, part.dim);
    at->partial &= (mr_axes_t)~axis;
    at->axes[d] = axis, at->outer[d] = want->outer[d];
  }
  return x;
}

static mr_var_t *sum_terms(mr_cutter_t *c, mr_var_t *x, mr_axes_t axes) {
  for (int a = 0; a < c->mesh->n && x; a++)
    if (axes >> a & 1) x = mr_lax_psum(c->g, x, c->mesh->name[a]);
  return x;
}

mr_var_t *mr__max_over(mr_cutter_t *c, mr_var_t *x, mr_axes_t axes) {
  mr_fn_t *g = c->g;
  for (int a = 0; a < c->mesh->n && x; a++) {
    if (!(axes >> a & 1)) continue;
    mr_aval_t part = x->aval;
    x = mr_lax_reshape_to(g, x, mr_aval_elems(&part));
    x = mr_lax_all_gather(g, x, c->mesh->name[a], c->mesh->size[a]);
    x = mr_lax_reduce_max(g, x, 1, (int[]){0});
    x = mr_lax_reshape(g, x, part.ndim, part.dim);
  }
  return x;
}

/* ---- an equation on the parts of its operands ---- */
int mr__factor_behind(const mr_cutter_t *c, const mr_factors_t *s, const mr_dim_factors_t *dim,
                      mr_axes_t axes, int64_t blocks, mr_factor_cut_t *cut) {
  int64_t before = 1;
  int found = -1;
  *cut = (mr_factor_cut_t){0};
  if (!blocks) blocks = 1;
  for (int j = 0; j < dim->n && before && blocks % before == 0; j++) {
    int64_t size = s->factor[dim->of[j]].size, own = blocks / before;
    if (size % own == 0 && size / own % mr__parts_of(c->mesh, axes) == 0 && size)
      found = dim->of[j], *cut = (mr_factor_cut_t){axes, own};
    before *= size;
  }
  return found;
}

mr_placement_t mr__placement_of(const mr_aval_t *a, const mr_factors_t *s,
                                const mr_dim_factors_t *dim, const mr_factor_cut_t *cut) {
  mr_placement_t p = {.partial = 0};
  for (int d = 0; d < a->ndim; d++) {
    int64_t before = 1;
    for (int j = 0; j < dim[d].n && !p.axes[d]; j++) {
      int k = dim[d].of[j];
      if (cut[k].axes) p.axes[d] = cut[k].axes, p.outer[d] = before * cut[k].blocks;
      before *= s->factor[k].size;
    }
  }
  return p;
}

mr_eqn_t *mr__cut_equation(mr_cutter_t *c, const mr_eqn_t *e, const mr_factors_t *s,
                           const mr_factor_cut_t *cut, mr_place_t *const *needs) {
  mr_fn_t *g = c->g;
  mr_var_t **in = mr_mem_take(&g->mem, ((size_t)e->n_in + 1) * sizeof(mr_var_t *));
  int64_t *parts = mr_mem_take(&g->mem, ((size_t)s->n + 1) * sizeof *parts);
  for (int k = 0; k < s->n; k++) parts[k] = mr__parts_of(c->mesh, cut[k].axes);
  for (int i = 0; i < e->n_in; i++)
    in[i] = mr__resharded(c, needs[i], mr__placement_of(&e->in[i]->aval, s, s->in[i], cut), e);
  mr_eqn_t copy = *e;
  copy.scope = mr_mem_text(&g->mem, e->scope);
  if (copy.row) copy.row = mr_mem_text(&g->mem, copy.row);
  return mr_emit_part(g, &copy, s, parts, in);
}

/* ---- a part of a broadcast, without the whole ---- */
/* Whether e's operands are so much smaller than its result that a part of it costs less to compute
   than to cut. */
static bool is_made_of_little(const mr_eqn_t *e) {
  int64_t read = 0;
  if (e->n_out != 1 || e->op->collective) return false;
  for (int k = 0; k < e->n_in; k++) read += mr_aval_elems(&e->in[k]->aval);
  return 2 * read <= mr_aval_elems(&e->out[0]->aval);
}

/* Sets cut[s->n] to the cuts that give the equation's result as `want` says; false: none do. */
static bool finds_cuts_for(const mr_cutter_t *c, const mr_factors_t *s, const mr_place_t *p,
                           const mr_placement_t *want, mr_factor_cut_t *cut) {
  for (int d = 0; d < p->whole.ndim; d++) {
    mr_factor_cut_t as;
    if (!want->axes[d]) continue;
    int k = mr__factor_behind(c, s, &s->out[0][d], want->axes[d], want->outer[d], &as);
    if (k < 0 || s->factor[k].cut != MR_CUT_EACH || cut[k].axes) return false;
    cut[k] = as;
  }
  return true;
}

/* The value's equation once more, for the part alone; NULL if that is not worth while. */
static mr_var_t *written_again(mr_cutter_t *c, const mr_place_t *p, const mr_placement_t *want) {
  mr_factors_t s = {0};
  mr_diag_t unsaid = {0};
  mr_var_t *y = NULL;
  if (!p->def || want->partial || p->own.at.partial || !is_made_of_little(p->def) ||
      mr_factors_of(p->def, &s, &unsaid) != MR_OK)
    return NULL;
  mr_factor_cut_t *cut = mr_mem_take(&c->g->mem, ((size_t)s.n + 1) * sizeof *cut);
  if (finds_cuts_for(c, &s, p, want, cut)) {
    mr_eqn_t *e = mr__cut_equation(c, p->def, &s, cut, p->needs);
    if (e) y = e->out[0];
  }
  mr_factors_fini(&s);
  return y;
}

/* ---- */
static mr_axes_t axes_in_use(const mr_placement_t *p) {
  mr_axes_t all = p->partial;
  for (int d = 0; d < MR_MAX_NDIM; d++) all |= p->axes[d];
  return all;
}

/* Takes parts along axes that `at` does not use yet. */
static mr_var_t *take_parts(mr_cutter_t *c, mr_var_t *x, mr_placement_t *at,
                            const mr_placement_t *want) {
  for (int d = 0; x && d < x->aval.ndim; d++) {
    if (!want->axes[d] || at->axes[d] || (axes_in_use(at) & want->axes[d])) continue;
    x = take_part(c, x, d, want->axes[d], blocks_of(want, d));
    at->axes[d] = want->axes[d], at->outer[d] = want->outer[d];
  }
  return x;
}

static mr_var_t *move_to(mr_cutter_t *c, const mr_version_t *from, const mr_placement_t *want) {
  mr_placement_t at = from->at;
  mr_axes_t terms = at.partial & (mr_axes_t)~want->partial;
  mr_var_t *x = sum_terms(c, from->var, terms);
  at.partial &= want->partial;
  x = take_parts(c, x, &at, want);
  for (int d = 0; x && d < x->aval.ndim; d++) {
    if (!at.axes[d] || (at.axes[d] == want->axes[d] && blocks_of(&at, d) == blocks_of(want, d)))
      continue;
    x = gather_parts(c, x, d, at.axes[d], blocks_of(&at, d));
    at.axes[d] = 0, at.outer[d] = 0;
  }
  return take_parts(c, x, &at, want);
}

mr_var_t *mr__resharded(mr_cutter_t *c, mr_place_t *p, mr_placement_t want, const mr_eqn_t *e) {
  for (const mr_version_t *v = &p->own; v; v = v->next)
    if (is_placed_alike(&v->at, &want)) return v->var;
  mr_origin_t before = mr_origin(c->g);
  if (e) mr_origin_from(c->g, e, "partition");
  c->g->scope = mr_mem_text(&c->g->mem, c->g->scope);
  if (c->g->row) c->g->row = mr_mem_text(&c->g->mem, c->g->row);
  mr_version_t from = p->own;
  /* What is to lie so serves every later reader; else the sum of the terms does. */
  if (e && e->op == &mr_op_sharding_constraint && from.at.partial)
    from.var = scatter_terms(c, from.var, &from.at, &want);
  bool scattered = from.at.partial != p->own.at.partial;
  if (p->own.at.partial && !want.partial && !scattered) {
    mr_placement_t summed = p->own.at;
    summed.partial = 0;
    p->own.var = sum_terms(c, p->own.var, p->own.at.partial);
    p->own.at = summed;
    from = p->own;
  }
  mr_version_t *made = mr_mem_take(&c->g->mem, sizeof *made);
  *made = (mr_version_t){want, NULL, p->own.next};
  if (is_placed_alike(&p->own.at, &want))
    made->var = p->own.var;
  else if (scattered || !(made->var = written_again(c, p, &want)))
    made->var = move_to(c, &from, &want);
  mr_origin_set(c->g, before);
  if (!made->var) return NULL;
  p->own.next = made;
  return made->var;
}
