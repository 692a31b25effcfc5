/* The frame of a transform: a copy of f to append to at its begin, outputs and cleaning up at its
   end. */
#include "model/transforms/build.h"

#include <stdlib.h>

#include "model/ops/rules.h"
#include "model/transforms/transforms.h"

mr_fn_t *mr__begin(const mr_fn_t *f, int more, mr_var_t ***out) {
  mr_fn_t *g = mr_fn_create();
  if (!g) return NULL;
  *out = mr_mem_take(&g->mem, (size_t)(f->n_out + more + 1) * sizeof **out);
  for (int i = 0; i < f->n_in; i++) mr_fn_input(g, f->in[i]->aval);
  mr_inline(g, f, g->in, *out);
  return g;
}

mr_err_t mr__finish(mr_fn_t *g, int n_out, mr_var_t *const *out, mr_fn_t **to, mr_diag_t *diag) {
  if (g->diag.code >= 0) mr_fn_return(g, n_out, out);
  if (g->diag.code >= 0) mr__open_spent(g);
  if (g->diag.code < 0) {
    mr_err_t err = mr_diag_relay(diag, g->diag.code, &g->diag);
    mr_fn_destroy(g);
    return err;
  }
  mr_dce(g);
  *to = g;
  return MR_OK;
}

mr_var_t **mr__pick(mr_fn_t *g, int n_in, int n, const int *wrt, const char *who) {
  mr_var_t **v = mr_mem_take(&g->mem, (size_t)(n + 1) * sizeof(mr_var_t *));
  char text[MR_AVAL_TEXT];
  for (int i = 0; i < n; i++) {
    if (wrt[i] < 0 || wrt[i] >= n_in) {
      mr_fail(&g->diag, MR_ERR_SHAPE, "%s: no input %d among %d", who, wrt[i], n_in);
      return v;
    }
    v[i] = g->in[wrt[i]];
    if (!mr_is_float(v[i]->aval.dtype))
      mr_fail(&g->diag, MR_ERR_SHAPE, "%s: input %d is %s, want floats", who, wrt[i],
              mr_aval_text(&v[i]->aval, text));
  }
  return v;
}

mr_err_t mr__keep(mr_fn_t *g, mr_eqn_t *e) {
  if (g->n_eqn == g->cap_eqn) {
    int cap = 2 * g->cap_eqn + 16;
    mr_eqn_t **grown = realloc(g->eqn, (size_t)cap * sizeof *grown);
    if (!grown) return mr_no_memory(&g->diag, "a rewritten graph");
    g->eqn = grown, g->cap_eqn = cap;
  }
  g->eqn[g->n_eqn++] = e;
  return MR_OK;
}
