/* View rules that ops share. */
#include "model/ops/view.h"

bool mr_view_each(const mr_eqn_t *e, const mr_view_t *v, mr_view_t *in) {
  for (int k = 0; k < e->n_in; k++) {
    if (mr_aval_same_shape(&e->in[k]->aval, &e->out[0]->aval))
      in[k] = *v;
    else if (e->in[k]->aval.ndim)
      return false;
  }
  return true;
}

bool mr_view_rows(const mr_eqn_t *e, const mr_view_t *v, mr_view_t *in) {
  const mr_aval_t *x = &e->in[0]->aval, *y = &e->out[0]->aval;
  int last = y->ndim - 1;
  if (v->transposes || x->ndim != y->ndim || last < 1) return false;
  if (v->start[last] != 0 || v->limit[last] != y->dim[last]) return false;
  in[0] = *v;
  in[0].limit[last] = x->dim[last];
  return true;
}

mr_aval_t mr_view_aval(const mr_aval_t *x, const mr_view_t *v) {
  mr_aval_t y = *x;
  for (int i = 0; i < v->ndim; i++)
    y.dim[i] = v->transposes ? x->dim[v->perm[i]] : v->limit[i] - v->start[i];
  return y;
}
