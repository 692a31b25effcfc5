/* Copies equations between graphs by a map from the var ids of one to the vars of the other: a copy
   of a graph, a call replaced by the body of its function, a part of a graph that a transform
   keeps.  Literals are made anew in the new graph; equations keep their scopes, within that of the
   place they are copied to. */
#include "model/ir/fn.h"

#include <stdlib.h>

mr_var_t *mr__mapped(mr_fn_t *g, mr_var_t **map, const mr_var_t *v) {
  if (!map[v->id] && v->literal) map[v->id] = mr_literal_like(g, v->aval.dtype, v);
  return map[v->id];
}

mr_err_t mr__copy_eqn(mr_fn_t *g, const mr_eqn_t *e, mr_var_t **map) {
  mr_var_t **in = mr_mem_take(&g->mem, (size_t)e->n_in * sizeof *in);
  for (int k = 0; k < e->n_in; k++) in[k] = mr__mapped(g, map, e->in[k]);
  mr_eqn_t *c = mr_emit_like(g, e, in);
  if (!c) return g->diag.code;
  for (int k = 0; k < e->n_out; k++) map[e->out[k]->id] = c->out[k];
  return MR_OK;
}

mr_err_t mr_inline(mr_fn_t *g, const mr_fn_t *f, mr_var_t *const *in, mr_var_t **out) {
  if (f->diag.code < 0) return mr_diag_relay(&g->diag, f->diag.code, &f->diag);
  mr_var_t **map = calloc((size_t)f->n_var + 1, sizeof *map);
  if (!map) return mr_no_memory(&g->diag, "a copy of a graph");
  mr_err_t err = MR_OK;
  for (int i = 0; i < f->n_in; i++) map[f->in[i]->id] = in[i];
  for (int i = 0; i < f->n_eqn && err >= 0; i++) {
    /* Transforms begin in scope "", where nothing is added; a rule that writes for a call has the
       call's scope, which the function's own equations lack. */
    mr_eqn_t e = *f->eqn[i];
    e.scope = mr_scope_within(&g->mem, g->scope, e.scope);
    err = e.scope ? mr__copy_eqn(g, &e, map) : g->diag.code;
  }
  for (int i = 0; i < f->n_out && err >= 0; i++) out[i] = mr__mapped(g, map, f->out[i]);
  free(map);
  return err;
}

mr_fn_t *mr_fn_copy(const mr_fn_t *f, mr_diag_t *diag) {
  mr_fn_t *g = mr_fn_create();
  if (!g) {
    mr_no_memory(diag, "a copy of a graph");
    return NULL;
  }
  mr_var_t **out = mr_mem_take(&g->mem, (size_t)(f->n_out + 1) * sizeof *out);
  for (int i = 0; i < f->n_in; i++) mr_fn_input(g, f->in[i]->aval);
  if (g->diag.code < 0 || mr_inline(g, f, g->in, out) < 0 || mr_fn_return(g, f->n_out, out) < 0) {
    mr_diag_relay(diag, g->diag.code, &g->diag);
    mr_fn_destroy(g);
    return NULL;
  }
  return g;
}
