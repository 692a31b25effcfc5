/* Spent calls (mr_op_def.ad): reverse mode has rewritten what they run, so they are
   replaced by their open form, which the next transform then goes through instead of the call. */
#include <stdlib.h>

#include "model/ir/op.h"
#include "model/ops/rules.h"
#include "model/transforms/build.h"
#include "model/transforms/transforms.h"

static bool is_spent(const mr_eqn_t *e) { return e->op->ad.spent && e->op->ad.spent(e); }

static bool any_spent(const mr_fn_t *g) {
  for (int i = 0; i < g->n_eqn; i++)
    if (is_spent(g->eqn[i])) return true;
  return false;
}

/* Replaces v[n] by now[id]; NULL there, and vars from n_var on, stay. */
static void replace_vars(int n_var, mr_var_t **now, int n, mr_var_t **v) {
  for (int i = 0; i < n; i++)
    if (v[i]->id < n_var && now[v[i]->id]) v[i] = now[v[i]->id];
}

static mr_err_t open_one(mr_fn_t *g, const mr_eqn_t *e, mr_var_t **now) {
  mr_var_t **out = mr_mem_take(&g->mem, (size_t)(e->n_out + 1) * sizeof(mr_var_t *));
  const char *outer = g->scope;
  g->scope = e->scope;
  mr_err_t err = e->op->open(g, e, out);
  g->scope = outer;
  MR_TRY(err);
  for (int k = 0; k < e->n_out; k++) now[e->out[k]->id] = out[k];
  return MR_OK;
}

mr_err_t mr__open_spent(mr_fn_t *g) {
  if (!any_spent(g)) return MR_OK;
  int n = g->n_eqn, n_var = g->n_var;
  mr_eqn_t **all = mr_mem_copy(&g->mem, g->eqn, (size_t)n, sizeof *all);
  mr_var_t **now = calloc((size_t)n_var + 1, sizeof *now);
  if (!now) return mr_no_memory(&g->diag, "opening calls");
  g->n_eqn = 0;
  mr_err_t err = MR_OK;
  for (int i = 0; i < n && err >= 0; i++) {
    replace_vars(n_var, now, all[i]->n_in, all[i]->in);
    err = is_spent(all[i]) ? open_one(g, all[i], now) : mr__keep(g, all[i]);
  }
  replace_vars(n_var, now, g->n_out, g->out);
  free(now);
  return err;
}

/* ---- functions that are called ---- */

/* Whether f, or a function called in it, holds an equation that can be spent and is not yet. */
static bool may_spend(const mr_fn_t *f) {
  for (int i = 0; i < f->n_eqn; i++) {
    const mr_eqn_t *e = f->eqn[i];
    const mr_fn_t *const *fns;
    if (!e->op->ad.spend) continue;
    if (e->op->ad.spent && !e->op->ad.spent(e)) return true;
    for (int k = 0; k < e->n_attr; k++)
      for (int j = mr_attr_calls(&e->attr[k], &fns) - 1; j >= 0; j--)
        if (may_spend(fns[j])) return true;
  }
  return false;
}

/* Returns a copy of f with every equation spent, which the caller destroys.  NULL on failure. */
static mr_fn_t *spend_all(const mr_fn_t *f, mr_diag_t *diag) {
  mr_fn_t *g = mr_fn_copy(f, diag);
  if (!g) return NULL;
  mr_err_t err = MR_OK;
  for (int i = 0; i < g->n_eqn && err >= 0; i++)
    if (g->eqn[i]->op->ad.spend) err = g->eqn[i]->op->ad.spend(g, g->eqn[i]);
  if (err >= 0) err = mr__open_spent(g);
  if (err >= 0) return g;
  mr_diag_relay(diag, err, &g->diag);
  mr_fn_destroy(g);
  return NULL;
}

mr_err_t mr__spend_called(mr_fn_t *f, mr_eqn_t *e, const char *name) {
  const mr_fn_t *const *fns;
  mr_attr_t attr = *mr_attr_get(e, name);
  int n = mr_attr_calls(&attr, &fns), made = 0;
  bool any = false;
  for (int i = 0; i < n; i++) any |= may_spend(fns[i]);
  if (!any) return MR_OK;
  mr_fn_t **now = mr_mem_take(&f->mem, (size_t)n * sizeof *now);
  while (made < n && (now[made] = spend_all(fns[made], &f->diag))) made++;
  attr.fns = (const mr_fn_t *const *)(uintptr_t)now;
  attr.fn = now[0];
  mr_err_t err = made == n ? mr_eqn_widen(f, e, attr, 0, NULL) : f->diag.code;
  for (int i = 0; i < made; i++) mr_fn_destroy(now[i]);
  return err;
}
