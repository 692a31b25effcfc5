/* Forward mode: goes through the equations in order and appends what each one's jvp rule computes
   from the tangents of its operands; equations without such tangents are skipped. */
#include <stdlib.h>

#include "model/ir/op.h"
#include "model/ops/lax.h"
#include "model/transforms/build.h"
#include "model/transforms/transforms.h"

/* The tangents of e through its open form. */
static mr_err_t forward_open(mr_fn_t *g, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout) {
  mr_var_t **out = mr_mem_take(&g->mem, (size_t)(e->n_out + 1) * sizeof(mr_var_t *));
  int from = g->n_eqn;
  MR_TRY(e->op->open(g, e, out));
  return mr_forward_range(g, from, e->n_in, e->in, din, e->n_out, out, dout);
}

static mr_err_t forward_one(mr_fn_t *g, const mr_eqn_t *e, mr_var_t **tangent) {
  mr_var_t **dout = mr_mem_take(&g->mem, (size_t)(e->n_out + 1) * sizeof(mr_var_t *));
  mr_var_t **din = mr_mem_take(&g->mem, (size_t)(e->n_in + 1) * sizeof *din);
  bool any = false;
  for (int k = 0; k < e->n_in; k++) any |= (din[k] = tangent[e->in[k]->id]) != NULL;
  if (!any) return MR_OK;
  mr_origin_from(g, e, "jvp");
  mr_err_t err = e->op->ad.jvp(g, e, din, dout);
  MR_TRY(err == MR_OPEN ? forward_open(g, e, din, dout) : err);
  for (int k = 0; k < e->n_out; k++) tangent[e->out[k]->id] = dout[k];
  return g->diag.code < 0 ? g->diag.code : MR_OK;
}

mr_err_t mr_forward_range(mr_fn_t *g, int from, int n_in, mr_var_t *const *in, mr_var_t *const *din,
                          int n_out, mr_var_t *const *out, mr_var_t **dout) {
  if (g->diag.code < 0) return g->diag.code;
  int to = g->n_eqn;
  mr_origin_t before = mr_origin(g);
  mr_var_t **tangent = calloc((size_t)g->n_var + 1, sizeof *tangent);
  if (!tangent) return mr_no_memory(&g->diag, "the tangents of jvp");
  mr_err_t err = MR_OK;
  for (int i = 0; i < n_in; i++)
    if (!in[i]->literal) tangent[in[i]->id] = din[i];
  for (int i = from; i < to && err >= 0; i++) err = forward_one(g, g->eqn[i], tangent);
  for (int i = 0; i < n_out && err >= 0; i++) dout[i] = tangent[out[i]->id];
  mr_origin_set(g, before);
  free(tangent);
  return err < 0 ? err : MR_OK;
}

mr_err_t mr_jvp(const mr_fn_t *f, int n, const int *wrt, mr_fn_t **out, mr_diag_t *diag) {
  mr_var_t **all;
  mr_fn_t *g = mr__begin(f, f->n_out, &all);
  if (!g) return mr_no_memory(diag, "jvp");
  mr_var_t **x = mr__pick(g, f->n_in, n, wrt, "jvp"), **d = all + f->n_out;
  mr_var_t **dx = mr_mem_take(&g->mem, (size_t)(n + 1) * sizeof *dx);
  for (int i = 0; i < n && g->diag.code >= 0; i++) dx[i] = mr_fn_input(g, x[i]->aval);
  if (g->diag.code >= 0) mr_forward_range(g, 0, n, x, dx, f->n_out, all, d);
  for (int i = 0; i < f->n_out && g->diag.code >= 0; i++)
    if (!d[i]) d[i] = mr_lax_full(g, &all[i]->aval, 0);
  return mr__finish(g, 2 * f->n_out, all, out, diag);
}
