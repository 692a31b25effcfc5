#include "model/ops/lax.h"
#include "model/ops/op.h"
#include "model/transforms/build.h"
#include "model/transforms/transforms.h"

bool mr_save_nothing(const mr_eqn_t *e) { return false; }
bool mr_save_dots(const mr_eqn_t *e) { return e->op->amp == MR_AMP_NARROW; }
bool mr_save_everything(const mr_eqn_t *e) { return true; }

/* f with the results that the policy keeps as further outputs; their number in *n_saved. */
static mr_fn_t *with_saved(const mr_fn_t *f, mr_policy_fn *policy, int *n_saved, mr_diag_t *diag) {
  mr_fn_t *b = mr_fn_copy(f, diag);
  if (!b) return NULL;
  mr_var_t **all = mr_mem_take(&b->mem, (size_t)(b->n_out + b->n_var + 1) * sizeof(mr_var_t *));
  int n = 0;
  for (; n < b->n_out; n++) all[n] = b->out[n];
  for (int i = 0; i < b->n_eqn; i++)
    for (int k = 0; policy(b->eqn[i]) && k < b->eqn[i]->n_out; k++) all[n++] = b->eqn[i]->out[k];
  *n_saved = n - f->n_out;
  mr_fn_return(b, n, all);
  return b;
}

mr_err_t mr_checkpoint(const mr_fn_t *f, mr_policy_fn *policy, mr_fn_t **out, mr_diag_t *diag) {
  int n_saved = 0;
  mr_fn_t *b = with_saved(f, policy ? policy : mr_save_nothing, &n_saved, diag);
  mr_fn_t *g = b ? mr_fn_create() : NULL;
  if (!g) {
    mr_fn_destroy(b);
    return mr_fail(diag, MR_ERR_NOMEM, "checkpoint: no memory");
  }
  mr_var_t **y = mr_mem_take(&g->mem, (size_t)(f->n_out + 1) * sizeof(mr_var_t *));
  for (int i = 0; i < f->n_in; i++) mr_fn_input(g, f->in[i]->aval);
  mr_lax_checkpoint(g, b, n_saved, g->in, y);
  mr_fn_destroy(b);
  return mr__finish(g, f->n_out, y, out, diag);
}
