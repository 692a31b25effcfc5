/* Jacobians: a jvp (columns) or vjp (rows) mapped over the unit vectors.  Values that do not depend
   on the vectors are computed once, because vmap copies them unmapped.  Second derivatives: forward
   mode over reverse mode. */
#include "model/ops/lax.h"
#include "model/ops/rules.h"
#include "model/transforms/build.h"
#include "model/transforms/transforms.h"

/* Sets *b to the aval of d y / d x: y's dimensions, then x's. */
static mr_err_t block_aval(mr_fn_t *g, const mr_aval_t *y, const mr_aval_t *x, mr_aval_t *b) {
  if (y->ndim + x->ndim > MR_MAX_NDIM)
    return mr_fail(&g->diag, MR_ERR_SHAPE,
                   "jacobian: output and input have %d dimensions, at most %d", y->ndim + x->ndim,
                   MR_MAX_NDIM);
  *b = *y;
  for (int i = 0; i < x->ndim; i++) b->dim[b->ndim++] = x->dim[i];
  return MR_OK;
}

/* Returns all unit vectors of the shape of a: (elems, a...).  NULL on failure. */
static mr_var_t *unit_vectors(mr_fn_t *g, const mr_aval_t *a) {
  int64_t n = mr_aval_elems(a), dim[MR_MAX_NDIM + 1] = {n};
  for (int i = 0; i < a->ndim; i++) dim[i + 1] = a->dim[i];
  if (a->ndim == MR_MAX_NDIM) {
    mr_fail(&g->diag, MR_ERR_SHAPE, "jacobian: a value has too many dimensions");
    return NULL;
  }
  return mr_lax_reshape(g, mr_lax_eye(g, a->dtype, n), a->ndim + 1, dim);
}

/* Maps part, the jvp or vjp of f, over the unit vectors of its input f->n_in + k, with zeros for
   its other vectors; y[part->n_out] are the results. */
static mr_err_t map_units(mr_fn_t *g, const mr_fn_t *f, const mr_fn_t *part, int k,
                          mr_batched_t *y) {
  mr_batched_t *in = mr_mem_take(&g->mem, (size_t)(part->n_in + 1) * sizeof *in);
  for (int i = 0; i < part->n_in; i++) {
    const mr_aval_t *a = &part->in[i]->aval;
    if (i < f->n_in)
      in[i] = (mr_batched_t){g->in[i], -1};
    else if (i == f->n_in + k)
      in[i] = (mr_batched_t){unit_vectors(g, a), 0};
    else
      in[i] = (mr_batched_t){mr_lax_full(g, a, 0), -1};
  }
  return mr_inline_mapped(g, part, in, y);
}

/* Returns a mapped result as a block of the Jacobian: the mapped dimension comes first (reverse
   mode) or last. */
static mr_var_t *as_block(mr_fn_t *g, const mr_batched_t *m, int64_t size, bool last,
                          const mr_aval_t *y, const mr_aval_t *x) {
  mr_aval_t b;
  if (block_aval(g, y, x, &b) < 0) return NULL;
  mr_batched_t front = {mr_batch_front(g, m, size), 0};
  mr_var_t *v = last && front.var ? mr_batch_move(g, &front, front.var->aval.ndim - 1) : front.var;
  return mr_lax_reshape(g, v, b.ndim, b.dim);
}

static mr_err_t check_outputs(const mr_fn_t *f, const char *who, mr_diag_t *diag) {
  char text[MR_AVAL_TEXT];
  for (int k = 0; k < f->n_out; k++)
    if (!mr_is_float(f->out[k]->aval.dtype))
      return mr_fail(diag, MR_ERR_SHAPE, "%s: output %d is %s, want floats", who, k,
                     mr_aval_text(&f->out[k]->aval, text));
  return MR_OK;
}

static mr_fn_t *jacobian_begin(const mr_fn_t *f, int n, mr_var_t ***all, mr_diag_t *diag) {
  mr_fn_t *g = mr_fn_create();
  if (!g) {
    mr_no_memory(diag, "jacobian");
    return NULL;
  }
  for (int i = 0; i < f->n_in; i++) mr_fn_input(g, f->in[i]->aval);
  *all = mr_mem_take(&g->mem, (size_t)(f->n_out * n + 1) * sizeof **all);
  return g;
}

mr_err_t mr_jacfwd(const mr_fn_t *f, int n, const int *wrt, mr_fn_t **out, mr_diag_t *diag) {
  mr_fn_t *j;
  mr_var_t **all;
  MR_TRY(check_outputs(f, "jacfwd", diag));
  MR_TRY(mr_jvp(f, n, wrt, &j, diag));
  mr_fn_t *g = jacobian_begin(f, n, &all, diag);
  if (!g) return mr_fn_destroy(j), MR_ERR_NOMEM;
  mr_batched_t *y = mr_mem_take(&g->mem, (size_t)(j->n_out + 1) * sizeof *y);
  for (int i = 0; i < n && g->diag.code >= 0; i++) {
    const mr_aval_t *x = &f->in[wrt[i]]->aval;
    if (map_units(g, f, j, i, y) < 0) break;
    for (int k = 0; k < f->n_out; k++)
      all[k * n + i] = as_block(g, &y[f->n_out + k], mr_aval_elems(x), true, &f->out[k]->aval, x);
  }
  mr_fn_destroy(j);
  return mr__finish(g, f->n_out * n, all, out, diag);
}

mr_err_t mr_jacrev(const mr_fn_t *f, int n, const int *wrt, mr_fn_t **out, mr_diag_t *diag) {
  mr_fn_t *v;
  mr_var_t **all;
  MR_TRY(check_outputs(f, "jacrev", diag));
  MR_TRY(mr_vjp(f, n, wrt, &v, diag));
  mr_fn_t *g = jacobian_begin(f, n, &all, diag);
  if (!g) return mr_fn_destroy(v), MR_ERR_NOMEM;
  mr_batched_t *x = mr_mem_take(&g->mem, (size_t)(v->n_out + 1) * sizeof *x);
  for (int k = 0; k < f->n_out && g->diag.code >= 0; k++) {
    const mr_aval_t *y = &f->out[k]->aval;
    if (map_units(g, f, v, k, x) < 0) break;
    for (int i = 0; i < n; i++)
      all[k * n + i] = as_block(g, &x[i], mr_aval_elems(y), false, y, &f->in[wrt[i]]->aval);
  }
  mr_fn_destroy(v);
  return mr__finish(g, f->n_out * n, all, out, diag);
}

/* ---- second derivatives ---- */

mr_err_t mr_hessian(const mr_fn_t *f, int n, const int *wrt, mr_fn_t **out, mr_diag_t *diag) {
  mr_fn_t *g;
  MR_TRY(mr_grad(f, n, wrt, &g, diag));
  mr_err_t err = mr_jacfwd(g, n, wrt, out, diag);
  mr_fn_destroy(g);
  return err;
}

mr_err_t mr_hvp(const mr_fn_t *f, int n, const int *wrt, mr_fn_t **out, mr_diag_t *diag) {
  mr_fn_t *g, *j;
  MR_TRY(mr_grad(f, n, wrt, &g, diag));
  mr_err_t err = mr_jvp(g, n, wrt, &j, diag);
  mr_fn_destroy(g);
  if (err < 0) return err;
  if (mr_fn_return(j, n, j->out + n) < 0) { /* the tangents alone */
    err = mr_diag_relay(diag, j->diag.code, &j->diag);
    mr_fn_destroy(j);
    return err;
  }
  mr_dce(j);
  *out = j;
  return MR_OK;
}
