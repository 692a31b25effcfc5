/* Dead code: a backward walk marks the operands of live equations; the others are dropped, but for
   those that other ranks wait for.  One pass is enough, because operands come before the equations
   that use them. */
#include "model/ir/op.h"
#include "model/transforms/transforms.h"

static bool dce_is_needed(const mr_eqn_t *e) {
  for (int k = 0; k < e->n_out; k++)
    if (e->out[k]->live) return true;
  return mr_eqn_is_awaited(e);
}

static void dce_mark(mr_var_t *const *v, int n, bool live) {
  for (int i = 0; i < n; i++) v[i]->live = live;
}

void mr_dce(mr_fn_t *f) {
  for (int i = 0; i < f->n_eqn; i++) dce_mark(f->eqn[i]->out, f->eqn[i]->n_out, false);
  dce_mark(f->out, f->n_out, true);
  int at = f->n_eqn;
  for (int i = f->n_eqn - 1; i >= 0; i--) {
    mr_eqn_t *e = f->eqn[i];
    if (!dce_is_needed(e)) continue;
    dce_mark(e->in, e->n_in, true);
    f->eqn[--at] = e;
  }
  f->n_eqn -= at;
  for (int i = 0; i < f->n_eqn; i++) f->eqn[i] = f->eqn[i + at];
}
