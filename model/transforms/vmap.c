/* vmap: goes through the equations in order; one with a mapped operand is written by its op's batch
   rule, any other is copied. */
#include <stdlib.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"
#include "model/transforms/build.h"
#include "model/transforms/transforms.h"

static mr_batched_t vmap_map_var(mr_fn_t *g, mr_batched_t *map, const mr_var_t *v) {
  if (!map[v->id].var && v->literal)
    map[v->id] = (mr_batched_t){mr_literal_like(g, v->aval.dtype, v), -1};
  return map[v->id];
}

/* The batch rule of e through its open form. */
static mr_err_t vmap_map_open(mr_fn_t *g, const mr_eqn_t *e, const mr_batched_t *in,
                              mr_batched_t *out) {
  mr_fn_t *t = mr_open_eqn(e, &g->diag);
  if (!t) return g->diag.code;
  mr_err_t err = mr_inline_mapped(g, t, in, out);
  mr_fn_destroy(t);
  return err;
}

/* Appends e to g, in a scope that g keeps.  A collective over the mapped axis needs its batch rule
   even without a mapped operand. */
static mr_err_t map_eqn(mr_fn_t *g, const mr_eqn_t *e, const char *scope, mr_batched_t *map) {
  mr_batched_t *in = mr_mem_take(&g->mem, (size_t)(e->n_in + 1) * sizeof *in);
  mr_batched_t *out = mr_mem_take(&g->mem, (size_t)(e->n_out + 1) * sizeof *out);
  bool any = false;
  for (int k = 0; k < e->n_in; k++) any |= (in[k] = vmap_map_var(g, map, e->in[k])).axis >= 0;
  mr_origin_from(g, e, "vmap");
  g->scope = scope;
  if (e->row) g->row = mr_mem_text(&g->mem, e->row);
  if (any || mr_axis_bound(g, e)) {
    mr_err_t err = e->op->batch(g, e, in, out);
    MR_TRY(err == MR_OPEN ? vmap_map_open(g, e, in, out) : err);
  } else {
    mr_var_t **v = mr_mem_take(&g->mem, (size_t)(e->n_in + 1) * sizeof(mr_var_t *));
    for (int k = 0; k < e->n_in; k++) v[k] = in[k].var;
    mr_eqn_t copy = *e, *c;
    copy.scope = scope;
    c = mr_emit_like(g, &copy, v);
    for (int k = 0; c && k < e->n_out; k++) out[k] = (mr_batched_t){c->out[k], -1};
  }
  for (int k = 0; k < e->n_out; k++) map[e->out[k]->id] = out[k];
  return g->diag.code < 0 ? g->diag.code : MR_OK;
}

mr_err_t mr_inline_mapped(mr_fn_t *g, const mr_fn_t *f, const mr_batched_t *in, mr_batched_t *out) {
  if (g->diag.code < 0) return g->diag.code;
  if (f->diag.code < 0) return mr_diag_relay(&g->diag, f->diag.code, &f->diag);
  mr_batched_t *map = calloc((size_t)f->n_var + 1, sizeof *map);
  if (!map) return mr_no_memory(&g->diag, "vmap");
  mr_origin_t before = mr_origin(g);
  mr_err_t err = MR_OK;
  for (int i = 0; i < f->n_in; i++) map[f->in[i]->id] = in[i];
  for (int i = 0; i < f->n_eqn && err >= 0; i++) {
    const mr_eqn_t *e = f->eqn[i];
    const char *scope = mr_mem_text(&g->mem, mr_scope_within(&g->mem, before.scope, e->scope));
    err = g->mem.failed ? g->diag.code : map_eqn(g, e, scope, map);
  }
  for (int i = 0; i < f->n_out && err >= 0; i++) out[i] = vmap_map_var(g, map, f->out[i]);
  mr_origin_set(g, before);
  free(map);
  return err;
}

/* Appends f's inputs to g, with the mapped dimension where in_axes asks for it; in[] are their vars
   and places. */
static mr_err_t map_inputs(mr_fn_t *g, const mr_fn_t *f, const int *in_axes, int64_t size,
                           mr_batched_t *in) {
  char text[MR_AVAL_TEXT];
  for (int i = 0; i < f->n_in; i++) {
    const mr_aval_t *a = &f->in[i]->aval;
    int axis = in_axes ? in_axes[i] : 0;
    if (axis == MR_UNMAPPED) {
      in[i] = (mr_batched_t){mr_fn_input(g, *a), -1};
      continue;
    }
    if (axis < 0) axis += a->ndim + 1;
    if (axis < 0 || axis > a->ndim || a->ndim == MR_MAX_NDIM)
      return mr_fail(&g->diag, MR_ERR_SHAPE,
                     "vmap: in_axes[%d] is %d, but an example of that input is %s", i,
                     in_axes ? in_axes[i] : 0, mr_aval_text(a, text));
    mr_aval_t b = *a;
    b.ndim++;
    for (int k = a->ndim; k > axis; k--) b.dim[k] = a->dim[k - 1];
    b.dim[axis] = size;
    in[i] = (mr_batched_t){mr_fn_input(g, b), axis};
  }
  return MR_OK;
}

static mr_var_t *vmap_place_output(mr_fn_t *g, const mr_batched_t *y, int k, const int *out_axes,
                                   int64_t size) {
  int axis = out_axes ? out_axes[k] : 0;
  if (axis == MR_UNMAPPED) {
    if (y->axis < 0) return y->var;
    mr_fail(&g->diag, MR_ERR_SHAPE, "vmap: out_axes[%d] is none, but output %d is mapped", k, k);
    return NULL;
  }
  mr_batched_t front = {mr_batch_front(g, y, size), 0};
  if (!front.var) return NULL;
  int ndim = front.var->aval.ndim, to = axis < 0 ? axis + ndim : axis;
  if (to >= 0 && to < ndim)
    return y->axis >= 0 ? mr_batch_move(g, y, to) : mr_batch_move(g, &front, to);
  mr_fail(&g->diag, MR_ERR_SHAPE, "vmap: out_axes[%d] is %d, but output %d has %d dimensions", k,
          axis, k, ndim);
  return NULL;
}

mr_err_t mr_vmap(const mr_fn_t *f, int64_t size, const int *in_axes, const int *out_axes,
                 mr_fn_t **out, mr_diag_t *diag) {
  return mr_vmap_axis(f, NULL, size, in_axes, out_axes, out, diag);
}

mr_err_t mr_vmap_axis(const mr_fn_t *f, const char *axis_name, int64_t size, const int *in_axes,
                      const int *out_axes, mr_fn_t **out, mr_diag_t *diag) {
  if (size < 0)
    return mr_fail(diag, MR_ERR_SHAPE, "vmap: size is %lld, want >= 0", (long long)size);
  mr_fn_t *g = mr_fn_create();
  if (!g) return mr_no_memory(diag, "vmap");
  g->axis_name = axis_name;
  g->axis_size = size;
  mr_batched_t *in = mr_mem_take(&g->mem, (size_t)(f->n_in + 1) * sizeof *in);
  mr_batched_t *y = mr_mem_take(&g->mem, (size_t)(f->n_out + 1) * sizeof *y);
  mr_var_t **all = mr_mem_take(&g->mem, (size_t)(f->n_out + 1) * sizeof(mr_var_t *));
  if (map_inputs(g, f, in_axes, size, in) >= 0 && mr_inline_mapped(g, f, in, y) >= 0)
    for (int k = 0; k < f->n_out; k++) all[k] = vmap_place_output(g, &y[k], k, out_axes, size);
  g->axis_name = NULL;
  return mr__finish(g, f->n_out, all, out, diag);
}
