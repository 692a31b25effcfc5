#include <stdlib.h>

#include "model/transforms/transforms.h"

static bool wanted(const bool *live, const mr_eqn_t *e) {
  for (int k = 0; k < e->n_out; k++)
    if (live[e->out[k]->id]) return true;
  return false;
}

void mr_dce(mr_fn_t *f) {
  bool *live = calloc((size_t)f->n_var + 1, sizeof *live);
  if (!live) return; /* dead code is slow, not wrong */
  for (int i = 0; i < f->n_out; i++) live[f->out[i]->id] = true;
  int at = f->n_eqn;
  for (int i = f->n_eqn - 1; i >= 0; i--) {
    mr_eqn_t *e = f->eqn[i];
    if (!wanted(live, e)) continue;
    for (int k = 0; k < e->n_in; k++) live[e->in[k]->id] = true;
    f->eqn[--at] = e;
  }
  f->n_eqn -= at;
  for (int i = 0; i < f->n_eqn; i++) f->eqn[i] = f->eqn[i + at];
  free(live);
}
