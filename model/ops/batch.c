/* Batch rules that ops share: move the mapped dimensions of the operands to one place, then emit
   the op once on the larger tensors.  An op that needs more than that has a rule of its own beside
   its other rules. */
#include "model/ops/batch.h"

#include <string.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"

static bool speaks_of(const mr_eqn_t *e, const char *axis_name) {
  if (e->op->collective) return !strcmp(mr_attr_get(e, "axis_name")->text, axis_name);
  for (int k = 0; k < e->n_attr; k++) {
    const mr_fn_t *const *fns;
    int n = mr_attr_calls(&e->attr[k], &fns);
    for (int j = 0; j < n; j++)
      for (int i = 0; i < fns[j]->n_eqn; i++)
        if (speaks_of(fns[j]->eqn[i], axis_name)) return true;
  }
  return false;
}

bool mr_axis_bound(const mr_fn_t *f, const mr_eqn_t *e) {
  return f->axis_name && speaks_of(e, f->axis_name);
}

int64_t mr_batch_size(int n, const mr_batched_t *in) {
  for (int i = 0; i < n; i++)
    if (in[i].axis >= 0) return in[i].var->aval.dim[in[i].axis];
  return 1;
}

mr_var_t *mr_batch_move(mr_fn_t *f, const mr_batched_t *b, int to) {
  if (!b->var || b->axis == to) return b->var;
  int perm[MR_MAX_NDIM], from = 0;
  for (int i = 0; i < b->var->aval.ndim; i++) {
    if (from == b->axis) from++;
    perm[i] = i == to ? b->axis : from++;
  }
  return mr_lax_transpose(f, b->var, perm);
}

static mr_var_t *too_deep(mr_fn_t *f) {
  mr_fail(&f->diag, MR_ERR_SHAPE, "vmap: the mapped value would have more than %d dimensions",
          MR_MAX_NDIM);
  return NULL;
}

mr_var_t *mr_batch_front(mr_fn_t *f, const mr_batched_t *b, int64_t size) {
  if (!b->var || b->axis >= 0) return mr_batch_move(f, b, 0);
  const mr_aval_t *a = &b->var->aval;
  if (a->ndim == MR_MAX_NDIM) return too_deep(f);
  int at[MR_MAX_NDIM];
  int64_t dim[MR_MAX_NDIM] = {size};
  for (int i = 0; i < a->ndim; i++) {
    at[i] = i + 1;
    dim[i + 1] = a->dim[i];
  }
  return mr_lax_broadcast_in_dim(f, b->var, a->ndim + 1, dim, at);
}

mr_var_t *mr_batch_select(mr_fn_t *f, mr_var_t *which, mr_var_t *a, mr_var_t *b) {
  if (which && a && a->aval.ndim > 1)
    which = mr_lax_broadcast_in_dim(f, which, a->aval.ndim, a->aval.dim, (int[]){0});
  return mr_lax_select_n(f, which, a, b);
}

/* A mapped scalar (B) beside tensors: repeated to (B, y's dimensions). */
static mr_var_t *spread_scalar(mr_fn_t *f, mr_var_t *v, int64_t size, const mr_aval_t *y) {
  if (!v || y->ndim == 0) return v;
  if (y->ndim == MR_MAX_NDIM) return too_deep(f);
  int64_t dim[MR_MAX_NDIM] = {size};
  for (int i = 0; i < y->ndim; i++) dim[i + 1] = y->dim[i];
  return mr_lax_broadcast_in_dim(f, v, y->ndim + 1, dim, (int[]){0});
}

/* Returns the place of the mapped dimension if it is the same in all operands and nothing must be
   moved or repeated; else 0. */
static int common_axis(const mr_eqn_t *e, const mr_batched_t *in) {
  int axis = -1, ndim = e->out[0]->aval.ndim;
  for (int i = 0; i < e->n_in; i++) {
    int own = e->in[i]->aval.ndim;
    if (in[i].axis < 0 && own == 0) continue;
    if (in[i].axis < 0 || own != ndim || (axis >= 0 && axis != in[i].axis)) return 0;
    axis = in[i].axis;
  }
  return axis < 0 ? 0 : axis;
}

mr_err_t mr_batch_pointwise(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                            mr_batched_t *out) {
  int axis = common_axis(e, in);
  int64_t size = mr_batch_size(e->n_in, in);
  mr_var_t **v = mr_mem_take(&f->mem, (size_t)(e->n_in + 1) * sizeof(mr_var_t *));
  for (int i = 0; i < e->n_in; i++) {
    bool scalar = e->in[i]->aval.ndim == 0, mapped = in[i].axis >= 0;
    if (scalar)
      v[i] = mapped ? spread_scalar(f, in[i].var, size, &e->out[0]->aval) : in[i].var;
    else
      v[i] = axis ? in[i].var : mr_batch_front(f, &in[i], size);
  }
  mr_eqn_t *b = mr_emit_like(f, e, v);
  for (int i = 0; b && i < e->n_out; i++) out[i] = (mr_batched_t){b->out[i], axis};
  return mr_rule_done(f);
}

mr_err_t mr_batch_alike(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in, mr_batched_t *out) {
  int64_t size = mr_batch_size(e->n_in, in);
  mr_var_t **v = mr_mem_take(&f->mem, (size_t)(e->n_in + 1) * sizeof(mr_var_t *));
  for (int i = 0; i < e->n_in; i++) v[i] = mr_batch_front(f, &in[i], size);
  mr_eqn_t *b = mr_emit_like(f, e, v);
  for (int i = 0; b && i < e->n_out; i++) out[i] = (mr_batched_t){b->out[i], 0};
  return mr_rule_done(f);
}

mr_err_t mr_batch_rows(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in, mr_batched_t *out) {
  for (int i = 1; i < e->n_in; i++)
    if (in[i].axis >= 0) return mr_batch_open(f, e, in, out);
  mr_var_t **v = mr_mem_take(&f->mem, (size_t)(e->n_in + 1) * sizeof(mr_var_t *));
  v[0] = mr_batch_front(f, &in[0], 1);
  for (int i = 1; i < e->n_in; i++) v[i] = in[i].var;
  mr_eqn_t *b = mr_emit_like(f, e, v);
  for (int i = 0; b && i < e->n_out; i++) out[i] = (mr_batched_t){b->out[i], 0};
  return mr_rule_done(f);
}

mr_err_t mr_batch_merge(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in, mr_batched_t *out) {
  int64_t size = mr_batch_size(e->n_in, in);
  mr_var_t **v = mr_mem_take(&f->mem, (size_t)(e->n_in + 1) * sizeof(mr_var_t *));
  for (int i = 0; i < e->n_in; i++) {
    mr_aval_t a = e->in[i]->aval;
    a.dim[0] *= size;
    v[i] = mr_lax_reshape(f, mr_batch_front(f, &in[i], size), a.ndim, a.dim);
  }
  mr_eqn_t *b = mr_emit_like(f, e, v);
  for (int i = 0; b && i < e->n_out; i++) {
    const mr_aval_t *y = &e->out[i]->aval;
    int64_t dim[MR_MAX_NDIM + 1] = {size};
    for (int k = 0; k < y->ndim; k++) dim[k + 1] = y->dim[k];
    if (y->ndim == MR_MAX_NDIM) return too_deep(f), f->diag.code;
    out[i] = (mr_batched_t){mr_lax_reshape(f, b->out[i], y->ndim + 1, dim), 0};
  }
  return mr_rule_done(f);
}

mr_err_t mr_batch_open(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in, mr_batched_t *out) {
  return MR_OPEN;
}
