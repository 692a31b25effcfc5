/* Maps a called function over examples, for the batch rules of loops, branches and calls.  Which
   outputs become mapped follows from which inputs are; a loop asks again with its carried values
   mapped until the answer no longer changes. */
#include "model/control/flow.h"

#include "model/ops/call.h"
#include "model/ops/rules.h"
#include "model/transforms/transforms.h"

void mr__call_front(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in, mr_var_t **v,
                    int *axes) {
  for (int i = 0; i < e->n_in; i++) {
    bool mapped = in[i].axis >= 0;
    v[i] = mapped ? mr_batch_move(f, &in[i], 0) : in[i].var;
    axes[i] = mapped ? 0 : MR_UNMAPPED;
  }
}

int64_t mr__call_size(const mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in) {
  for (int i = 0; i < e->n_in; i++)
    if (in[i].axis >= 0) return mr_batch_size(e->n_in, in);
  return f->axis_size;
}

mr_err_t mr__call_mapped(mr_fn_t *f, const mr_fn_t *called, int64_t size, const bool *in,
                         bool *out_mapped, mr_fn_t **out) {
  mr_fn_t *g = mr_fn_create();
  if (!g) return mr_no_memory(&f->diag, "vmap");
  g->axis_name = f->axis_name;
  g->axis_size = size;
  mr_batched_t *x = mr_mem_take(&g->mem, (size_t)(called->n_in + 1) * sizeof *x);
  mr_batched_t *y = mr_mem_take(&g->mem, (size_t)(called->n_out + 1) * sizeof *y);
  mr_var_t **all = mr_mem_take(&g->mem, (size_t)(called->n_out + 1) * sizeof(mr_var_t *));
  for (int i = 0; i < called->n_in && g->diag.code >= 0; i++) {
    mr_aval_t a = called->in[i]->aval;
    if (in[i] && a.ndim == MR_MAX_NDIM)
      mr_fail(&g->diag, MR_ERR_SHAPE, "vmap: a mapped value would have more than %d dimensions",
              MR_MAX_NDIM);
    for (int k = in[i] && g->diag.code >= 0 ? a.ndim++ : 0; k > 0; k--) a.dim[k] = a.dim[k - 1];
    if (in[i]) a.dim[0] = size;
    x[i] = (mr_batched_t){mr_fn_input(g, a), in[i] ? 0 : -1};
  }
  if (g->diag.code >= 0) mr_inline_mapped(g, called, x, y);
  for (int k = 0; k < called->n_out && g->diag.code >= 0; k++) {
    out_mapped[k] |= y[k].axis >= 0;
    all[k] = out_mapped[k] ? mr_batch_front(g, &y[k], size) : y[k].var;
  }
  g->axis_name = NULL;
  if (g->diag.code >= 0) mr_fn_return(g, called->n_out, all);
  if (g->diag.code < 0) {
    mr_err_t err = mr__call_failed(f, &g->diag);
    mr_fn_destroy(g);
    return err;
  }
  mr_dce(g);
  *out = g;
  return MR_OK;
}
