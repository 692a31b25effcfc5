#include "model/ops/rows.h"

#include "model/ops/lax.h"

mr_var_t *mr_rows_spread(mr_fn_t *f, mr_var_t *v, const mr_aval_t *like) {
  int at[MR_MAX_NDIM];
  for (int i = 0; i < MR_MAX_NDIM; i++) at[i] = i;
  return mr_lax_broadcast_in_dim(f, v, like->ndim, like->dim, at);
}

mr_var_t *mr_row_repeat(mr_fn_t *f, mr_var_t *v, const mr_aval_t *like) {
  return mr_lax_broadcast_in_dim(f, v, like->ndim, like->dim, (int[]){like->ndim - 1});
}
