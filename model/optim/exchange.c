/* The exchange as equations: pieces are padded to the sizes that all ranks have, joined to one
   vector, gathered by rank, and cut again. */
#include "model/optim/exchange.h"

#include <assert.h>

#include "model/control/control.h"

mr__exchange_t mr__exchange_start(mr_fn_t *f, const mr_optim_ranks_t *ranks, int most) {
  mr__exchange_t x = {.f = f, .ranks = ranks, .most = most};
  x.piece = mr_mem_take(&f->mem, (size_t)most * sizeof *x.piece);
  x.at = mr_mem_take(&f->mem, (size_t)(most + 1) * sizeof *x.at);
  if (x.at) x.at[0] = 0;
  return x;
}

int mr__exchange_give(mr__exchange_t *x, mr_var_t *v, int64_t size) {
  mr_aval_t flat = mr_aval_of(MR_F32, size);
  int64_t n = v ? mr_aval_elems(&v->aval) : 0;
  assert(x->n < x->most && n <= size);
  if (v) {
    v = mr_lax_reshape_to(x->f, mr_lax_convert(x->f, v, MR_F32), n);
    if (n < size) v = mr_lax_pad(x->f, v, (int64_t[]){0}, (int64_t[]){size - n});
  } else {
    v = mr_lax_full(x->f, &flat, 0);
  }
  x->piece[x->n] = v;
  x->at[x->n + 1] = x->at[x->n] + size;
  return x->n++;
}

void mr__exchange_gather(mr__exchange_t *x) {
  mr_var_t *mine = x->n > 1 ? mr_lax_concatenate(x->f, x->n, x->piece, 0) : x->piece[0];
  x->all = mr_lax_all_gather(x->f, mine, x->ranks->axis, x->ranks->size);
}

mr_var_t *mr__exchange_take(const mr__exchange_t *x, int piece, int rank, int64_t at,
                            const mr_aval_t *aval) {
  int64_t from = x->at[piece] + at;
  mr_var_t *v = mr_lax_slice(x->f, x->all, (int64_t[]){rank, from},
                             (int64_t[]){rank + 1, from + mr_aval_elems(aval)});
  return mr_lax_convert(x->f, mr_lax_reshape(x->f, v, aval->ndim, aval->dim), aval->dtype);
}
