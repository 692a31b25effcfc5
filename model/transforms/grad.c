/* Reverse mode: goes through the equations backwards and appends what each one's vjp rule writes;
   the cotangents of a value with several uses are added. */
#include <stdlib.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"
#include "model/transforms/build.h"
#include "model/transforms/passes.h"
#include "model/transforms/transforms.h"

typedef struct sweep {
  mr_fn_t *g;
  mr_var_t **ct; /* cotangents by var id, for vars older than the sweep */
  bool *active;  /* by var id: depends on a var of wrt */
} sweep_t;

bool mr__wants(const mr_fn_t *g, const mr_var_t *v) {
  return !v->literal && (v->id >= g->n_wanted || g->wanted[v->id]);
}

/* Adds d to the cotangent of v, unless v is constant in the derivative. */
static mr_err_t add_cotangent(sweep_t *s, const mr_var_t *v, mr_var_t *d) {
  if (!d || !s->active[v->id]) return MR_OK;
  mr_var_t **ct = &s->ct[v->id];
  *ct = *ct ? mr_lax_add_any(s->g, *ct, d) : d;
  return *ct ? MR_OK : s->g->diag.code;
}

/* Appends the cotangents of e's operands.  Without a cotangent of a result nothing is appended, but
   a call that the sweep passes is spent like the others. */
static mr_err_t back_one(sweep_t *s, const mr_eqn_t *e) {
  mr_fn_t *g = s->g;
  mr_var_t **dout = mr_mem_take(&g->mem, (size_t)(e->n_out + 1) * sizeof(mr_var_t *));
  bool any = false, want = false;
  for (int k = 0; k < e->n_out; k++) any |= (dout[k] = s->ct[e->out[k]->id]) != NULL;
  for (int k = 0; k < e->n_in; k++) want |= s->active[e->in[k]->id];
  if (!want) return MR_OK;
  if (!any) return e->n_out && e->op->ad.spend ? e->op->ad.spend(g, e->out[0]->def) : MR_OK;
  mr_var_t **din = mr_mem_take(&g->mem, (size_t)e->n_in * sizeof *din);
  mr_origin_from(g, e, "grad");
  mr_err_t err = e->op->ad.vjp(g, e, dout, din);
  MR_TRY(err == MR_OPEN ? mr_backward_open(g, e, dout, din) : err);
  for (int k = 0; k < e->n_in; k++) MR_TRY(add_cotangent(s, e->in[k], din[k]));
  return MR_OK;
}

/* Sweeps may nest: the vjp rule of a call sweeps through the body, so g->wanted is restored at the
   end. */
static mr_err_t run_sweep(sweep_t *s, int from, int to, int n_y, mr_var_t *const *y,
                          mr_var_t *const *dy, int n, mr_var_t *const *wrt, mr_var_t **grad) {
  mr_fn_t *g = s->g;
  int n_outer = g->n_wanted;
  const bool *outer = g->wanted;
  mr_origin_t before = mr_origin(g);
  for (int i = 0; i < n; i++)
    s->active[wrt[i]->id] |= mr_is_float(wrt[i]->aval.dtype) && mr__wants(g, wrt[i]);
  mr__eqn_moves(to - from, g->eqn + from, s->active);
  g->wanted = s->active, g->n_wanted = g->n_var;
  mr_err_t err = MR_OK;
  for (int i = 0; i < n_y && err >= 0; i++) err = add_cotangent(s, y[i], dy[i]);
  for (int i = to - 1; i >= from && err >= 0; i--) err = back_one(s, g->eqn[i]);
  mr_origin_set(g, before);
  g->wanted = outer, g->n_wanted = n_outer;
  for (int i = 0; i < n && err >= 0; i++) grad[i] = s->ct[wrt[i]->id];
  return err < 0 ? err : g->diag.code;
}

mr_err_t mr_backward_between(mr_fn_t *g, int from, int to, int n_y, mr_var_t *const *y,
                             mr_var_t *const *dy, int n, mr_var_t *const *wrt, mr_var_t **grad) {
  if (g->diag.code < 0) return g->diag.code;
  for (int i = 0; i < n_y; i++)
    if (dy[i] && !mr_aval_equal(&y[i]->aval, &dy[i]->aval))
      return mr_fail(&g->diag, MR_ERR_SHAPE, "a cotangent must have the shape of its value");
  sweep_t s = {.g = g,
               .ct = calloc((size_t)g->n_var + 1, sizeof *s.ct),
               .active = calloc((size_t)g->n_var + 1, sizeof *s.active)};
  mr_err_t err = s.ct && s.active ? run_sweep(&s, from, to, n_y, y, dy, n, wrt, grad)
                                  : mr_no_memory(&g->diag, "the reverse sweep");
  free(s.ct);
  free(s.active);
  return err < 0 ? err : MR_OK;
}

mr_err_t mr_backward_range(mr_fn_t *g, int from, int n_y, mr_var_t *const *y, mr_var_t *const *dy,
                           int n, mr_var_t *const *wrt, mr_var_t **grad) {
  return mr_backward_between(g, from, g->n_eqn, n_y, y, dy, n, wrt, grad);
}

mr_err_t mr_backward_open(mr_fn_t *g, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  mr_var_t **out = mr_mem_take(&g->mem, (size_t)(e->n_out + 1) * sizeof(mr_var_t *));
  int from = g->n_eqn;
  MR_TRY(e->op->open(g, e, out));
  MR_TRY(mr_backward_range(g, from, e->n_out, out, dout, e->n_in, e->in, din));
  for (int i = 0; i < e->n_in;
       i++) /* a repeated operand has its whole cotangent at its first place */
    for (int k = 0; k < i; k++)
      if (e->in[k] == e->in[i]) din[i] = NULL;
  return mr_rule_done(g);
}

mr_err_t mr_backward(mr_fn_t *g, mr_var_t *y, mr_var_t *dout, int n, mr_var_t *const *wrt,
                     mr_var_t **grad) {
  MR_TRY(mr_backward_range(g, 0, 1, &y, &dout, n, wrt, grad));
  for (int i = 0; i < n; i++)
    if (!grad[i]) grad[i] = mr_lax_full(g, &wrt[i]->aval, 0);
  return g->diag.code < 0 ? g->diag.code : MR_OK;
}

/* mr__begin of a copy of f that the before_grad passes have rewritten.  NULL on failure. */
static mr_fn_t *begin_light(const mr_fn_t *f, int more, mr_var_t ***out, mr_diag_t *diag) {
  if (f->diag.code < 0) return mr_diag_relay(diag, f->diag.code, &f->diag), NULL;
  mr_fn_t *light = mr_fn_copy(f, diag), *g = NULL;
  if (light && mr_passes_before_grad(light, NULL, diag) >= 0) {
    g = mr__begin(light, more, out);
    if (!g) mr_no_memory(diag, "the gradient of a graph");
  }
  mr_fn_destroy(light);
  return g;
}

mr_err_t mr_value_and_grad(const mr_fn_t *f, int n, const int *wrt, mr_fn_t **out,
                           mr_diag_t *diag) {
  mr_var_t **all;
  char text[MR_AVAL_TEXT];
  if (f->diag.code < 0) return mr_diag_relay(diag, f->diag.code, &f->diag);
  if (f->n_out < 1) return mr_fail(diag, MR_ERR_SHAPE, "grad: the function has no output");
  if (f->out[0]->aval.ndim != 0 || !mr_is_float(f->out[0]->aval.dtype))
    return mr_fail(diag, MR_ERR_SHAPE, "grad: output 0 must be a scalar of floats, is %s",
                   mr_aval_text(&f->out[0]->aval, text));
  mr_diag_t why = {0};
  mr_fn_t *g = begin_light(f, n, &all, &why);
  if (!g) return mr_diag_relay(diag, why.code, &why);
  mr_var_t **v = mr__pick(g, f->n_in, n, wrt, "grad");
  if (g->diag.code >= 0)
    mr_backward(g, all[0], mr_literal(g, all[0]->aval.dtype, 1), n, v, all + f->n_out);
  return mr__finish(g, f->n_out + n, all, out, diag);
}

mr_err_t mr_grad(const mr_fn_t *f, int n, const int *wrt, mr_fn_t **out, mr_diag_t *diag) {
  mr_fn_t *g;
  MR_TRY(mr_value_and_grad(f, n, wrt, &g, diag));
  mr_var_t **grad = g->out + f->n_out;
  if (mr_fn_return(g, n, grad) < 0) {
    mr_err_t err = mr_diag_relay(diag, g->diag.code, &g->diag);
    mr_fn_destroy(g);
    return err;
  }
  mr_dce(g);
  *out = g;
  return MR_OK;
}

mr_err_t mr_vjp(const mr_fn_t *f, int n, const int *wrt, mr_fn_t **out, mr_diag_t *diag) {
  mr_var_t **y;
  mr_diag_t why = {0};
  mr_fn_t *g = begin_light(f, f->n_out, &y, &why);
  if (!g) return mr_diag_relay(diag, why.code, &why);
  mr_var_t **v = mr__pick(g, f->n_in, n, wrt, "vjp"), **dy = y + f->n_out;
  mr_var_t **grad = mr_mem_take(&g->mem, (size_t)(n + 1) * sizeof *grad);
  for (int i = 0; i < f->n_out; i++) dy[i] = g->diag.code < 0 ? NULL : mr_fn_input(g, y[i]->aval);
  if (g->diag.code >= 0) mr_backward_range(g, 0, f->n_out, y, dy, n, v, grad);
  for (int i = 0; i < n && g->diag.code >= 0; i++)
    if (!grad[i]) grad[i] = mr_lax_full(g, &v[i]->aval, 0);
  return mr__finish(g, n, grad, out, diag);
}
