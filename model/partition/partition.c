/* The pass: goes through the equations in order; each is cut as its operands lie, where its table
   of factors allows, and its results lie accordingly. */
#include "model/partition/partition.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "model/control/control.h"
#include "model/mesh/placement_rules.h"
#include "model/ops/rules.h"
#include "model/partition/place.h"
#include "model/transforms/build.h"
#include "model/transforms/transforms.h"

/* Open forms of equations, which live as long as places name their equations. */
typedef struct opened {
  mr_fn_t *f;
  struct opened *next;
} opened_t;

typedef struct partition {
  mr_cutter_t c;
  opened_t *opened;
} partition_t;

/* ---- which factors are cut ---- */
/* Whether k is the only cut factor of each dimension that has it. */
static bool cuts_alone(const mr_factors_t *s, int n, mr_dim_factors_t (*of)[MR_MAX_NDIM],
                       const mr_factor_cut_t *cut, int k) {
  for (int i = 0; i < n; i++) {
    for (int d = 0; d < MR_MAX_NDIM; d++) {
      bool has = false, other = false;
      for (int j = 0; j < of[i][d].n; j++) {
        has |= of[i][d].of[j] == k;
        other |= of[i][d].of[j] != k && cut[of[i][d].of[j]].axes;
      }
      if (has && other) return false;
    }
  }
  return true;
}

static bool may_cut(const mr_factors_t *s, const mr_factor_cut_t *cut, int k, mr_axes_t along) {
  for (int j = 0; j < s->n; j++)
    if (cut[j].axes & along) return false;
  return !cut[k].axes && s->factor[k].cut != MR_CUT_WHOLE &&
         cuts_alone(s, s->n_in, s->in, cut, k) && cuts_alone(s, s->n_out, s->out, cut, k);
}

/* The factor that cuts dimension d of a value that lies so, and how; -1: none does. */
static int own_factor(const partition_t *p, const mr_factors_t *s, const mr_dim_factors_t *dim,
                      const mr_placement_t *at, int d, mr_factor_cut_t *as) {
  *as = (mr_factor_cut_t){0};
  if (!at->axes[d]) return -1;
  return mr__factor_behind(&p->c, s, dim, at->axes[d], at->outer[d], as);
}

static bool has_dimension_of(const mr_factors_t *s, const mr_dim_factors_t *dim, int k) {
  for (int d = 0; d < MR_MAX_NDIM; d++)
    for (int j = 0; j < dim[d].n; j++)
      if (dim[d].of[j] == k) return true;
  return false;
}

/* Elements that need not move if k is cut so, less those of results that are then terms of a sum.
 */
static double gain_of_cut(const partition_t *p, const mr_eqn_t *e, const mr_factors_t *s,
                          mr_place_t *const *needs, int k, mr_factor_cut_t as) {
  double gain = 0;
  for (int i = 0; i < e->n_in; i++)
    for (int d = 0; d < e->in[i]->aval.ndim; d++) {
      const mr_placement_t *at = &needs[i]->own.at;
      mr_factor_cut_t own;
      if (at->axes[d] == as.axes && own_factor(p, s, &s->in[i][d], at, d, &own) == k &&
          own.blocks == as.blocks)
        gain += (double)mr_aval_elems(&e->in[i]->aval);
    }
  for (int i = 0; i < e->n_out && s->factor[k].cut != MR_CUT_EACH; i++)
    if (!has_dimension_of(s, s->out[i], k)) gain -= (double)mr_aval_elems(&e->out[i]->aval);
  return gain;
}

/* Sets cut[s->n], all 0 before: cuts that operands have, the ones of the largest gain first. */
static void choose_cuts(const partition_t *p, const mr_eqn_t *e, const mr_factors_t *s,
                        mr_place_t *const *needs, mr_factor_cut_t *cut) {
  for (;;) {
    int best = -1;
    mr_factor_cut_t best_as = {0}, as;
    double best_gain = 0;
    for (int i = 0; i < e->n_in; i++) {
      for (int d = 0; d < e->in[i]->aval.ndim; d++) {
        int k = own_factor(p, s, &s->in[i][d], &needs[i]->own.at, d, &as);
        if (k < 0 || !may_cut(s, cut, k, as.axes)) continue;
        double gain = gain_of_cut(p, e, s, needs, k, as);
        if (best < 0 || gain > best_gain) best = k, best_as = as, best_gain = gain;
      }
    }
    if (best < 0) return;
    cut[best] = best_as;
  }
}

/* ---- equations ---- */
static void place_value(mr_place_t *at, const mr_var_t *v, mr_placement_t p, mr_var_t *var) {
  *at = (mr_place_t){.whole = v->aval, .own = {.at = p, .var = var}};
}

static mr_place_t *place_of_operand(partition_t *p, mr_place_t **map, const mr_var_t *v) {
  if (!map[v->id] && v->literal) {
    map[v->id] = mr_mem_take(&p->c.g->mem, sizeof(mr_place_t));
    place_value(map[v->id], v, (mr_placement_t){.partial = 0},
                mr_literal_like(p->c.g, v->aval.dtype, v));
  }
  return map[v->id];
}

/* The axes along which all of e's operands are terms of sums, if e is linear in them together and
   in one dtype: its result is then a term too. */
static mr_axes_t terms_through(const mr_eqn_t *e, mr_place_t *const *needs) {
  if (!e->op->shard.linear || !e->n_in) return 0;
  mr_axes_t terms = needs[0]->own.at.partial;
  for (int i = 0; i < e->n_in; i++) {
    if (e->in[i]->literal || needs[i]->own.at.partial != terms) return 0;
    if (e->in[i]->aval.dtype != e->out[0]->aval.dtype) return 0;
  }
  return terms;
}

/* Joins the maxima of parts; sums stay terms. */
static mr_placement_t place_of_result(partition_t *p, const mr_eqn_t *e, const mr_factors_t *s,
                                      const mr_factor_cut_t *cut, int i, mr_var_t **var) {
  mr_placement_t at = mr__placement_of(&e->out[i]->aval, s, s->out[i], cut);
  mr_axes_t max = 0;
  for (int k = 0; k < s->n; k++) {
    if (!cut[k].axes || has_dimension_of(s, s->out[i], k)) continue;
    if (s->factor[k].cut == MR_CUT_SUM) at.partial |= cut[k].axes;
    if (s->factor[k].cut == MR_CUT_MAX) max |= cut[k].axes;
  }
  if (!max) return at;
  mr_origin_t before = mr_origin(p->c.g);
  mr_origin_from(p->c.g, e, "partition");
  p->c.g->scope = mr_mem_text(&p->c.g->mem, e->scope);
  if (e->row) p->c.g->row = mr_mem_text(&p->c.g->mem, e->row);
  *var = mr__max_over(&p->c, *var, max);
  mr_origin_set(p->c.g, before);
  return at;
}

static mr_err_t cut_by_table(partition_t *p, const mr_eqn_t *e, const mr_factors_t *s,
                             mr_place_t **map) {
  mr_mem_t *mem = &p->c.g->mem;
  mr_place_t **needs = mr_mem_take(mem, ((size_t)e->n_in + 1) * sizeof(mr_place_t *));
  mr_factor_cut_t *cut = mr_mem_take(mem, ((size_t)s->n + 1) * sizeof *cut);
  for (int i = 0; i < e->n_in; i++) needs[i] = place_of_operand(p, map, e->in[i]);
  choose_cuts(p, e, s, needs, cut);
  mr_axes_t terms = terms_through(e, needs);
  for (int i = 0; i < e->n_in && !terms; i++) { /* the sums, before e is written */
    mr_placement_t summed = needs[i]->own.at;
    summed.partial = 0;
    if (needs[i]->own.at.partial) mr__resharded(&p->c, needs[i], summed, e);
  }
  mr_eqn_t *y;
  if (terms) { /* the operands as terms: the same cuts, nothing is summed */
    mr_place_t **as_they_are = mr_mem_take(mem, ((size_t)e->n_in + 1) * sizeof(mr_place_t *));
    for (int i = 0; i < e->n_in; i++) {
      as_they_are[i] = mr_mem_take(mem, sizeof(mr_place_t));
      place_value(as_they_are[i], e->in[i], needs[i]->own.at, needs[i]->own.var);
      as_they_are[i]->own.at.partial = 0;
    }
    y = mr__cut_equation(&p->c, e, s, cut, as_they_are);
  } else {
    y = mr__cut_equation(&p->c, e, s, cut, needs);
  }
  for (int i = 0; y && i < e->n_out; i++) {
    mr_var_t *var = y->out[i];
    mr_placement_t at = place_of_result(p, e, s, cut, i, &var);
    mr_place_t *to = map[e->out[i]->id] = mr_mem_take(mem, sizeof *to);
    at.partial |= terms;
    place_value(to, e->out[i], at, var);
    to->def = e, to->needs = needs;
  }
  return mr_rule_done(p->c.g);
}

static mr_err_t cut_equations(partition_t *p, const mr_fn_t *f, mr_place_t **map);

/* e by the equations of its open form. */
static mr_err_t cut_open_form(partition_t *p, const mr_eqn_t *e, mr_place_t **map) {
  mr_mem_t *mem = &p->c.g->mem;
  opened_t *o = mr_mem_take(mem, sizeof *o);
  o->f = mr_open_eqn(e, &p->c.g->diag);
  if (!o->f) return p->c.g->diag.code;
  o->next = p->opened, p->opened = o;
  mr_place_t **inner = mr_mem_take(mem, ((size_t)o->f->n_var + 1) * sizeof(mr_place_t *));
  for (int i = 0; i < e->n_in; i++) inner[o->f->in[i]->id] = place_of_operand(p, map, e->in[i]);
  MR_TRY(cut_equations(p, o->f, inner));
  for (int i = 0; i < e->n_out; i++) map[e->out[i]->id] = place_of_operand(p, inner, o->f->out[i]);
  return mr_rule_done(p->c.g);
}

/* Whether an operand is cut where e's table has it whole, and e has an open form, which may have it
   otherwise: a product's terms, say, though the fused op adds a bias to them. */
static bool wants_open_form(partition_t *p, const mr_eqn_t *e, const mr_factors_t *s,
                            mr_place_t **map) {
  mr_factor_cut_t as;
  for (int i = 0; i < e->n_in && e->op->open != mr_no_open; i++) {
    const mr_placement_t *at = &place_of_operand(p, map, e->in[i])->own.at;
    for (int d = 0; d < e->in[i]->aval.ndim; d++) {
      int k = own_factor(p, s, &s->in[i][d], at, d, &as);
      if (at->axes[d] && (k < 0 || s->factor[k].cut == MR_CUT_WHOLE)) return true;
    }
  }
  return false;
}

static mr_placement_t plain_placement(const mr_mesh_t *mesh, int ndim, const mr_placement_t *p);

/* The operand where the constraint says. */
static mr_err_t constrain_value(partition_t *p, const mr_eqn_t *e, mr_place_t **map) {
  const mr_aval_t *a = &e->in[0]->aval;
  mr_diag_t *diag = &p->c.g->diag;
  mr_placement_t want;
  char where[160];
  mr_snprintf(where, sizeof where, "%.100s%ssharding_constraint", e->scope, *e->scope ? ": " : "");
  MR_TRY(mr_placement_parse(where, mr_attr_get(e, "spec")->text, p->c.mesh, a->ndim, &want, diag));
  MR_TRY(mr_placement_fits(where, &want, p->c.mesh, a->ndim, a->dim, diag));
  want = plain_placement(p->c.mesh, a->ndim, &want);
  mr_var_t *var = mr__resharded(&p->c, place_of_operand(p, map, e->in[0]), want, e);
  mr_place_t *to = map[e->out[0]->id] = mr_mem_take(&p->c.g->mem, sizeof *to);
  place_value(to, e->out[0], want, var);
  return mr_rule_done(p->c.g);
}

/* A dropout of what is cut, and of terms summed first; MR_OPEN: it cannot be drawn for parts. */
static mr_err_t cut_dropout(partition_t *p, const mr_eqn_t *e, mr_place_t **map) {
  mr_place_t *needs[3];
  for (int i = 0; i < 3; i++) needs[i] = place_of_operand(p, map, e->in[i]);
  mr_placement_t at = needs[0]->own.at;
  at.partial = 0;
  mr_var_t *var = mr__cut_dropout(&p->c, e, needs, &at);
  if (!var) return p->c.g->diag.code < 0 ? p->c.g->diag.code : MR_OPEN;
  mr_place_t *to = map[e->out[0]->id] = mr_mem_take(&p->c.g->mem, sizeof *to);
  place_value(to, e->out[0], at, var);
  return mr_rule_done(p->c.g);
}

/* Whether e is a sum of squares in f32, which may be of parts. */
static bool is_sum_of_squares(const mr_eqn_t *e) {
  return e->op == &mr_op_sum_squares && e->n_in && e->out[0]->aval.dtype == MR_F32;
}

static mr_err_t cut_squares(partition_t *p, const mr_eqn_t *e, mr_place_t **map) {
  mr_mem_t *mem = &p->c.g->mem;
  mr_place_t **needs = mr_mem_take(mem, ((size_t)e->n_in + 1) * sizeof(mr_place_t *));
  mr_place_t *to = map[e->out[0]->id] = mr_mem_take(mem, sizeof *to);
  if (mem->failed) return mr_rule_done(p->c.g);
  for (int i = 0; i < e->n_in; i++) needs[i] = place_of_operand(p, map, e->in[i]);
  mr_var_t *var = mr__cut_squares(&p->c, e, needs);
  place_value(to, e->out[0], (mr_placement_t){.partial = 0}, var);
  return mr_rule_done(p->c.g);
}

/* Whether e communicates along an axis that the mesh lacks: with others that have what this device
   has. */
static bool is_beside_mesh(const partition_t *p, const mr_eqn_t *e) {
  const mr_attr_t *axis = e->op->collective ? mr_attr_find(e, "axis_name") : NULL;
  return axis && mr_mesh_axis(p->c.mesh, axis->text, strlen(axis->text)) < 0;
}

/* Such an equation has whole operands and results: its other ranks need not lie as this one does.
 */
static mr_err_t copy_collective(partition_t *p, const mr_eqn_t *e, mr_place_t **map) {
  mr_mem_t *mem = &p->c.g->mem;
  const mr_placement_t whole = {.partial = 0};
  mr_var_t **in = mr_mem_take(mem, ((size_t)e->n_in + 1) * sizeof(mr_var_t *));
  for (int i = 0; in && i < e->n_in; i++)
    in[i] = mr__resharded(&p->c, place_of_operand(p, map, e->in[i]), whole, e);
  MR_TRY(mr_rule_done(p->c.g));
  const mr_eqn_t *y = mr_emit_like(p->c.g, e, in);
  for (int i = 0; y && i < e->n_out; i++) {
    map[e->out[i]->id] = mr_mem_take(mem, sizeof(mr_place_t));
    place_value(map[e->out[i]->id], e->out[i], whole, y->out[i]);
  }
  return mr_rule_done(p->c.g);
}

static mr_err_t cut_equations(partition_t *p, const mr_fn_t *f, mr_place_t **map) {
  for (int i = 0; i < f->n_eqn; i++) {
    if (is_beside_mesh(p, f->eqn[i])) {
      MR_TRY(copy_collective(p, f->eqn[i], map));
      continue;
    }
    if (f->eqn[i]->op == &mr_op_sharding_constraint) {
      MR_TRY(constrain_value(p, f->eqn[i], map));
      continue;
    }
    if (f->eqn[i]->op == &mr_op_dropout) {
      mr_err_t cut = cut_dropout(p, f->eqn[i], map);
      if (cut < 0) return cut;
      if (cut == MR_OK) continue;
    }
    if (is_sum_of_squares(f->eqn[i])) {
      MR_TRY(cut_squares(p, f->eqn[i], map));
      continue;
    }
    mr_factors_t s = {0};
    mr_err_t err = mr_factors_of(f->eqn[i], &s, &p->c.g->diag);
    if (err == MR_OK && wants_open_form(p, f->eqn[i], &s, map)) err = MR_OPEN;
    if (err == MR_OK) err = cut_by_table(p, f->eqn[i], &s, map);
    mr_factors_fini(&s);
    if (err == MR_OPEN) err = cut_open_form(p, f->eqn[i], map);
    MR_TRY(err);
  }
  return MR_OK;
}

/* ---- */
/* The placement without axes of size 1, and without blocks where nothing is cut. */
static mr_placement_t plain_placement(const mr_mesh_t *mesh, int ndim, const mr_placement_t *p) {
  mr_placement_t q = {.partial = p->partial};
  mr_axes_t longer = 0;
  for (int a = 0; a < mesh->n; a++)
    if (mesh->size[a] > 1) longer |= (mr_axes_t)(1 << a);
  q.partial &= longer;
  for (int d = 0; d < ndim; d++) {
    q.axes[d] = p->axes[d] & longer;
    q.outer[d] = q.axes[d] ? p->outer[d] : 0;
  }
  return q;
}

static mr_aval_t aval_of_part(const mr_aval_t *a, const mr_mesh_t *mesh, const mr_placement_t *p) {
  mr_aval_t part = *a;
  for (int d = 0; d < a->ndim; d++) part.dim[d] /= mr__parts_of(mesh, p->axes[d]);
  return part;
}

static mr_err_t check_placement(const char *of, int i, const mr_aval_t *a, const mr_mesh_t *mesh,
                                const mr_placement_t *p, mr_diag_t *diag) {
  char name[64];
  snprintf(name, sizeof name, "%s %d", of, i);
  for (int d = a->ndim; d < MR_MAX_NDIM; d++)
    if (p->axes[d])
      return mr_fail(diag, MR_ERR_SHAPE,
                     "%s has %d dimensions, but its placement cuts the one "
                     "with the number %d",
                     name, a->ndim, d);
  return mr_placement_fits(name, p, mesh, a->ndim, a->dim, diag);
}

static mr_err_t check_placements(const mr_fn_t *f, const mr_mesh_t *mesh, const mr_placement_t *in,
                                 const mr_placement_t *out, mr_diag_t *diag) {
  for (int i = 0; in && i < f->n_in; i++)
    MR_TRY(check_placement("input", i, &f->in[i]->aval, mesh, &in[i], diag));
  for (int i = 0; out && i < f->n_out; i++) {
    MR_TRY(check_placement("result", i, &f->out[i]->aval, mesh, &out[i], diag));
    if (out[i].partial)
      return mr_fail(diag, MR_ERR_SHAPE, "result %d is placed as terms of a sum, want it summed",
                     i);
  }
  return MR_OK;
}

mr_err_t mr_partition(const mr_fn_t *f, const mr_mesh_t *mesh, const mr_placement_t *in,
                      const mr_placement_t *out, mr_fn_t **local, mr_diag_t *diag) {
  if (f->diag.code < 0) return mr_diag_relay(diag, f->diag.code, &f->diag);
  MR_TRY(check_placements(f, mesh, in, out, diag));
  mr_fn_t *g = mr_fn_create();
  if (!g) return mr_no_memory(diag, "partition");
  partition_t p = {.c = {.g = g, .mesh = mesh}};
  mr_place_t **map = mr_mem_take(&g->mem, ((size_t)f->n_var + 1) * sizeof(mr_place_t *));
  mr_var_t **y = mr_mem_take(&g->mem, ((size_t)f->n_out + 1) * sizeof(mr_var_t *));
  for (int i = 0; i < f->n_in; i++) {
    mr_placement_t at =
        in ? plain_placement(mesh, f->in[i]->aval.ndim, &in[i]) : (mr_placement_t){.partial = 0};
    mr_var_t *part = mr_fn_input(g, aval_of_part(&f->in[i]->aval, mesh, &at));
    map[f->in[i]->id] = mr_mem_take(&g->mem, sizeof(mr_place_t));
    place_value(map[f->in[i]->id], f->in[i], at, part);
  }
  mr_err_t err = cut_equations(&p, f, map);
  for (int i = 0; i < f->n_out && err >= 0; i++) {
    mr_placement_t want =
        out ? plain_placement(mesh, f->out[i]->aval.ndim, &out[i]) : (mr_placement_t){.partial = 0};
    y[i] = mr__resharded(&p.c, place_of_operand(&p, map, f->out[i]), want, f->out[i]->def);
  }
  for (opened_t *o = p.opened; o; o = o->next) mr_fn_destroy(o->f);
  return mr__finish(g, f->n_out, y, local, diag);
}
