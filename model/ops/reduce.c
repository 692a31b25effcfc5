#include "model/ops/reduce.h"

#include "model/ops/lax.h"
#include "model/ops/rules.h"

unsigned mr__reduce_mask(const mr_eqn_t *e) {
  const mr_attr_t *axes = mr_attr_get(e, "axes");
  unsigned mask = 0;
  for (int i = 0; i < axes->n; i++) mask |= 1u << axes->i[i];
  return mask;
}

mr_err_t mr__reduce_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_aval_t *x = &e->in[0]->aval;
  const mr_attr_t *axes = mr_attr_get(e, "axes");
  for (int i = 0; i < axes->n; i++)
    if (axes->i[i] < 0 || axes->i[i] >= x->ndim) return mr_shape_fail(e, diag, "no such axis");
  unsigned mask = mr__reduce_mask(e);
  if (__builtin_popcount(mask) != axes->n) return mr_shape_fail(e, diag, "an axis stands twice");
  *out = mr_aval_scalar(x->dtype);
  for (int i = 0; i < x->ndim; i++)
    if (!(mask >> i & 1)) out->dim[out->ndim++] = x->dim[i];
  return MR_OK;
}

mr_var_t *mr__reduce_spread(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *v) {
  const mr_aval_t *x = &e->in[0]->aval;
  unsigned mask = mr__reduce_mask(e);
  int at[MR_MAX_NDIM], n = 0;
  for (int i = 0; i < x->ndim; i++)
    if (!(mask >> i & 1)) at[n++] = i;
  return mr_lax_broadcast_in_dim(f, v, x->ndim, x->dim, at);
}

bool mr__reduce_range(const mr_aval_t *x, unsigned mask, int *first, int *end) {
  *first = *end = -1;
  for (int i = 0; i < x->ndim; i++) {
    if (x->dim[i] == 1 || !(mask >> i & 1)) continue;
    if (*first >= 0 && mr_aval_span(x, *end, i) > 1) return false;
    if (*first < 0) *first = i;
    *end = i + 1;
  }
  return *first >= 0;
}

bool mr__reduce_unit(const mr_eqn_t *e, mr_unit_t *u) {
  const mr_aval_t *x = &e->in[0]->aval;
  int first, end;
  if ((x->dtype != MR_F32 && x->dtype != MR_BF16) || !mr_aval_elems(x)) return false;
  if (!mr__reduce_range(x, mr__reduce_mask(e), &first, &end)) return false;
  int64_t after = mr_aval_span(x, end, x->ndim);
  if (after > 1 && mr_aval_span(x, 0, first) > 1) return false;
  u->kind = after > 1 ? MR_UNIT_COLUMNS : MR_UNIT_REDUCE;
  u->inner = after > 1 ? after : mr_aval_span(x, first, end);
  return true;
}

int mr__reduce_batch(const mr_eqn_t *e, const mr_batched_t *in, int *axes, int *axis) {
  const mr_attr_t *old = mr_attr_get(e, "axes");
  *axis = in->axis;
  for (int i = 0; i < old->n; i++) {
    bool before = old->i[i] < in->axis;
    axes[i] = (int)old->i[i] + !before;
    *axis -= before;
  }
  return old->n;
}
