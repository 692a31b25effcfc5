/* Dropout as flax writes it, made of ops that every transform knows. */
#include "model/ops/lax.h"

mr_var_t *mr_lax_dropout_by_key(mr_fn_t *f, mr_var_t *x, float rate, mr_var_t *key) {
  if (!x || !key) return NULL;
  if (!(rate >= 0 && rate <= 1)) {
    mr_fail(&f->diag, MR_ERR_SHAPE, "dropout: the rate is %g, want one of [0,1]", (double)rate);
    return NULL;
  }
  if (rate == 0) return x;
  mr_var_t *zero = mr_lax_full(f, &x->aval, 0);
  if (rate == 1) return zero;
  float keep = 1 - rate;
  mr_var_t *coin = mr_lax_random_bernoulli(f, key, keep, x->aval.ndim, x->aval.dim);
  return mr_lax_select_n(f, coin, zero, mr_lax_div(f, x, mr_literal(f, x->aval.dtype, keep)));
}
