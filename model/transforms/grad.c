/* Reverse mode: the equations backwards, each replaced by its vjp rule; where a value was used
   more than once, its cotangents are added. */
#include <stdlib.h>

#include "model/ops/lax.h"
#include "model/ops/op.h"
#include "model/transforms/transforms.h"

typedef struct sweep {
  mr_fn_t *g;
  mr_var_t **ct; /* by var id, of the vars that were there before the sweep */
  bool *active;  /* depends on a var of wrt */
} sweep_t;

static void mark_active(sweep_t *s, int n_eqn) {
  for (int i = 0; i < n_eqn; i++) {
    const mr_eqn_t *e = s->g->eqn[i];
    bool any = false;
    for (int k = 0; k < e->n_in; k++) any |= s->active[e->in[k]->id];
    for (int k = 0; k < e->n_out; k++) s->active[e->out[k]->id] |= any;
  }
}

static mr_err_t back_one(sweep_t *s, const mr_eqn_t *e) {
  mr_fn_t *g = s->g;
  mr_var_t *dout[MR_MAX_OUT] = {NULL};
  bool any = false, want = false;
  for (int k = 0; k < e->n_out; k++) any |= (dout[k] = s->ct[e->out[k]->id]) != NULL;
  for (int k = 0; k < e->n_in; k++) want |= s->active[e->in[k]->id];
  if (!any || !want) return MR_OK;
  mr_var_t **din = mr_mem_take(&g->mem, (size_t)e->n_in * sizeof *din);
  g->scope = e->scope;
  MR_TRY(e->op->vjp(g, e, dout, din));
  for (int k = 0; k < e->n_in; k++) {
    int id = e->in[k]->id;
    if (!din[k] || !s->active[id]) continue;
    s->ct[id] = s->ct[id] ? mr_lax_add_any(g, s->ct[id], din[k]) : din[k];
    if (!s->ct[id]) return g->diag.code;
  }
  return MR_OK;
}

static mr_err_t run_sweep(sweep_t *s, mr_var_t *y, mr_var_t *dout, int n, mr_var_t *const *wrt,
                          mr_var_t **grad) {
  mr_fn_t *g = s->g;
  int n_eqn = g->n_eqn;
  const char *scope = g->scope;
  for (int i = 0; i < n; i++) s->active[wrt[i]->id] = true;
  mark_active(s, n_eqn);
  s->ct[y->id] = dout;
  mr_err_t err = MR_OK;
  for (int i = n_eqn - 1; i >= 0 && err >= 0; i--) err = back_one(s, g->eqn[i]);
  g->scope = scope;
  for (int i = 0; i < n && err >= 0; i++) {
    const mr_aval_t *a = &wrt[i]->aval;
    grad[i] = s->ct[wrt[i]->id];
    if (!grad[i])
      grad[i] = mr_lax_broadcast_in_dim(g, mr_literal(g, a->dtype, 0), a->ndim, a->dim, NULL);
  }
  return err < 0 ? err : g->diag.code;
}

mr_err_t mr_backward(mr_fn_t *g, mr_var_t *y, mr_var_t *dout, int n, mr_var_t *const *wrt,
                     mr_var_t **grad) {
  if (g->diag.code < 0) return g->diag.code;
  if (!mr_aval_equal(&y->aval, &dout->aval))
    return mr_fail(&g->diag, MR_ERR_SHAPE, "a cotangent must have the shape of its value");
  sweep_t s = {.g = g,
               .ct = calloc((size_t)g->n_var, sizeof *s.ct),
               .active = calloc((size_t)g->n_var, sizeof *s.active)};
  mr_err_t err = s.ct && s.active
                     ? run_sweep(&s, y, dout, n, wrt, grad)
                     : mr_fail(&g->diag, MR_ERR_NOMEM, "no memory for the reverse sweep");
  free(s.ct);
  free(s.active);
  return err < 0 ? err : MR_OK;
}

/* g: a copy of f's inputs and body; its results in *out. */
static mr_fn_t *begin(const mr_fn_t *f, mr_var_t ***out) {
  mr_fn_t *g = mr_fn_create();
  if (!g) return NULL;
  *out = mr_mem_take(&g->mem, (size_t)(f->n_out + 1) * sizeof **out);
  for (int i = 0; i < f->n_in; i++) mr_fn_input(g, f->in[i]->aval);
  mr_inline(g, f, g->in, *out);
  return g;
}

static mr_err_t finish(mr_fn_t *g, int n_out, mr_var_t *const *all, mr_fn_t **out,
                       mr_diag_t *diag) {
  if (g->diag.code >= 0) mr_fn_return(g, n_out, all);
  if (g->diag.code < 0) {
    mr_err_t err = mr_fail(diag, g->diag.code, "%s", g->diag.text);
    mr_fn_destroy(g);
    return err;
  }
  mr_dce(g);
  *out = g;
  return MR_OK;
}

static mr_var_t **pick(mr_fn_t *g, int n_in, int n, const int *wrt) {
  mr_var_t **v = mr_mem_take(&g->mem, (size_t)(n + 1) * sizeof *v);
  for (int i = 0; i < n; i++) {
    if (wrt[i] < 0 || wrt[i] >= n_in) {
      mr_fail(&g->diag, MR_ERR_SHAPE, "grad: no input %d among %d", wrt[i], n_in);
      return v;
    }
    v[i] = g->in[wrt[i]];
  }
  return v;
}

mr_err_t mr_value_and_grad(const mr_fn_t *f, int n, const int *wrt, mr_fn_t **out,
                           mr_diag_t *diag) {
  mr_var_t **y, **all;
  if (f->n_out < 1 || f->out[0]->aval.ndim != 0)
    return mr_fail(diag, MR_ERR_SHAPE, "grad: output 0 must be a scalar");
  mr_fn_t *g = begin(f, &y);
  if (!g) return mr_fail(diag, MR_ERR_NOMEM, "grad: no memory");
  mr_var_t **v = pick(g, f->n_in, n, wrt);
  all = mr_mem_take(&g->mem, (size_t)(f->n_out + n) * sizeof *all);
  for (int i = 0; i < f->n_out; i++) all[i] = y[i];
  if (g->diag.code >= 0)
    mr_backward(g, y[0], mr_literal(g, y[0]->aval.dtype, 1), n, v, all + f->n_out);
  return finish(g, f->n_out + n, all, out, diag);
}

mr_err_t mr_vjp(const mr_fn_t *f, int n, const int *wrt, mr_fn_t **out, mr_diag_t *diag) {
  mr_var_t **y;
  if (f->n_out != 1) return mr_fail(diag, MR_ERR_SHAPE, "vjp: want one output");
  mr_fn_t *g = begin(f, &y);
  if (!g) return mr_fail(diag, MR_ERR_NOMEM, "vjp: no memory");
  mr_var_t **v = pick(g, f->n_in, n, wrt);
  mr_var_t **grad = mr_mem_take(&g->mem, (size_t)(n + 1) * sizeof *grad);
  if (g->diag.code >= 0) mr_backward(g, y[0], mr_fn_input(g, y[0]->aval), n, v, grad);
  return finish(g, n, grad, out, diag);
}
