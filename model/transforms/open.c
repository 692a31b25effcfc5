/* Rewriting a graph with composites in open form, for three purposes: open them all (mr_open), only
   those that a target cannot run (mr_open_calls), or all with f64 in place of f32 (mr_in_f64). */
#include <stdlib.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"
#include "model/transforms/build.h"
#include "model/transforms/passes.h"
#include "model/transforms/transforms.h"

typedef struct opening {
  mr_fn_t *g;
  mr_dtype_t from, to;       /* dtypes to replace; equal: none */
  const mr_target_t *target; /* open only ops without a kernel there; NULL: all */
} opening_t;

static mr_dtype_t changed_dtype(const opening_t *o, mr_dtype_t t) {
  return t == o->from ? o->to : t;
}

static mr_var_t *open_mapped(const opening_t *o, mr_var_t **map, const mr_var_t *v) {
  if (!map[v->id] && v->literal)
    map[v->id] = mr_literal_like(o->g, changed_dtype(o, v->aval.dtype), v);
  return map[v->id];
}

static mr_err_t open_rewrite(const mr_fn_t *f, opening_t o, mr_fn_t **out, mr_diag_t *diag);

/* Replaces dtypes in attr, and functions in it (such as a loop's step) by rewritten copies, which
   the caller destroys. */
static mr_err_t change_attrs(const opening_t *o, const mr_eqn_t *e, mr_attr_t *attr) {
  mr_err_t err = MR_OK;
  for (int k = 0; k < e->n_attr; k++) {
    if (attr[k].kind == MR_ATTR_DTYPE) attr[k].i[0] = changed_dtype(o, (mr_dtype_t)attr[k].i[0]);
    const mr_fn_t *const *fns;
    int n = mr_attr_calls(&attr[k], &fns);
    if (!n) continue;
    const mr_fn_t **inner = mr_mem_take(&o->g->mem, (size_t)n * sizeof(mr_fn_t *));
    for (int i = 0; i < n && err >= 0; i++)
      err = open_rewrite(fns[i], *o, (mr_fn_t **)(uintptr_t)&inner[i], &o->g->diag);
    attr[k].fn = inner[0];
    attr[k].fns = inner;
  }
  return err;
}

static mr_err_t copy_eqn(const opening_t *o, const mr_eqn_t *e, mr_var_t **map) {
  mr_fn_t *g = o->g;
  mr_var_t **in = mr_mem_take(&g->mem, (size_t)(e->n_in + 1) * sizeof(mr_var_t *));
  for (int k = 0; k < e->n_in; k++) in[k] = open_mapped(o, map, e->in[k]);
  const mr_attr_t *asked = e->op->amp.widens ? mr_attr_find(e, "preferred_element_type") : NULL;
  if (asked && changed_dtype(o, (mr_dtype_t)asked->i[0]) != (mr_dtype_t)asked->i[0])
    for (int k = 0; k < e->n_in; k++) in[k] = mr_lax_convert(g, in[k], o->to); /* bf16 into f64 */
  mr_attr_t *attr = mr_mem_copy(&g->mem, e->attr, (size_t)e->n_attr, sizeof *attr);
  mr_eqn_t copy = *e, *c = NULL;
  copy.attr = attr;
  if (change_attrs(o, e, attr) >= 0) c = mr_emit_like(g, &copy, in);
  for (int k = 0; c && k < e->n_out; k++) map[e->out[k]->id] = c->out[k];
  for (int k = 0; k < e->n_attr; k++) {
    const mr_fn_t *const *fns;
    int n = mr_attr_calls(&attr[k], &fns);
    for (int i = 0; i < n; i++) mr_fn_destroy((mr_fn_t *)(uintptr_t)fns[i]);
  }
  return mr_rule_done(g);
}

static mr_err_t open_eqn(const opening_t *o, const mr_eqn_t *e, mr_var_t **map);

/* Builds the open form in a graph of its own, then rewrites that into o->g: it may hold composites,
   and open rules write the original dtypes, which change afterwards. */
static mr_err_t open_composite(const opening_t *o, const mr_eqn_t *e, mr_var_t **map) {
  mr_fn_t *t = mr_open_eqn(e, &o->g->diag);
  if (!t) return o->g->diag.code;
  mr_var_t **inner = calloc((size_t)t->n_var + 1, sizeof *inner);
  mr_err_t err = inner ? MR_OK : mr_no_memory(&o->g->diag, "opening calls");
  for (int k = 0; k < t->n_in && err >= 0; k++) inner[t->in[k]->id] = open_mapped(o, map, e->in[k]);
  for (int i = 0; i < t->n_eqn && err >= 0; i++) err = open_eqn(o, t->eqn[i], inner);
  for (int k = 0; k < t->n_out && err >= 0; k++)
    map[e->out[k]->id] = open_mapped(o, inner, t->out[k]);
  free(inner);
  mr_fn_destroy(t);
  return err;
}

static mr_err_t open_eqn(const opening_t *o, const mr_eqn_t *e, mr_var_t **map) {
  bool closed = o->target ? e->op->kind != MR_OP_CALL &&
                                (e->op->open == mr_no_open || !o->target->opens(o->target, e))
                          : e->op->open == mr_no_open || e->op->ad.own_rule;
  return closed ? copy_eqn(o, e, map) : open_composite(o, e, map);
}

static mr_err_t open_rewrite(const mr_fn_t *f, opening_t o, mr_fn_t **out, mr_diag_t *diag) {
  mr_fn_t *g = mr_fn_create();
  mr_var_t **map = calloc((size_t)f->n_var + 1, sizeof *map);
  if (!g || !map) {
    mr_fn_destroy(g);
    free(map);
    return mr_no_memory(diag, "opening calls");
  }
  o.g = g;
  mr_var_t **all = mr_mem_take(&g->mem, (size_t)(f->n_out + 1) * sizeof(mr_var_t *));
  for (int i = 0; i < f->n_in; i++) {
    mr_aval_t a = f->in[i]->aval;
    a.dtype = changed_dtype(&o, a.dtype);
    map[f->in[i]->id] = mr_fn_input(g, a);
  }
  mr_err_t err = MR_OK;
  for (int i = 0; i < f->n_eqn && err >= 0; i++) err = open_eqn(&o, f->eqn[i], map);
  for (int i = 0; i < f->n_out && err >= 0; i++) all[i] = open_mapped(&o, map, f->out[i]);
  free(map);
  return mr__finish(g, f->n_out, all, out, diag);
}

mr_err_t mr_open(const mr_fn_t *f, mr_fn_t **out, mr_diag_t *diag) {
  return open_rewrite(f, (opening_t){0}, out, diag);
}

mr_err_t mr_open_calls(const mr_fn_t *f, const mr_target_t *t, mr_fn_t **out, mr_diag_t *diag) {
  return open_rewrite(f, (opening_t){.target = t}, out, diag);
}

mr_err_t mr_in_f64(const mr_fn_t *f, mr_fn_t **out, mr_diag_t *diag) {
  return open_rewrite(f, (opening_t){.from = MR_F32, .to = MR_F64}, out, diag);
}

mr_fn_t *mr_open_eqn(const mr_eqn_t *e, mr_diag_t *diag) {
  mr_fn_t *t = mr_fn_create();
  if (!t) {
    mr_no_memory(diag, "opening %s", e->op->name);
    return NULL;
  }
  mr_var_t **in = mr_mem_take(&t->mem, (size_t)(e->n_in + 1) * sizeof(mr_var_t *));
  mr_var_t **out = mr_mem_take(&t->mem, (size_t)(e->n_out + 1) * sizeof(mr_var_t *));
  for (int i = 0; i < e->n_in; i++) in[i] = mr_fn_input(t, e->in[i]->aval);
  mr_eqn_t *c = mr_emit_like(t, e, in);
  if (c) mr_origin_from(t, c, "open");
  if (c && e->op->open(t, c, out) >= 0) mr_fn_return(t, e->n_out, out);
  if (t->diag.code >= 0) {
    mr_dce(t);
    return t;
  }
  mr_diag_relay(diag, t->diag.code, &t->diag);
  mr_fn_destroy(t);
  return NULL;
}
