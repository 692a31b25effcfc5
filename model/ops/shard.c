/* The shard rules that ops share.  What a rule does not name is WHOLE, so that a rule which knows
   less than the op allows costs a gather, never a wrong result. */
#include "model/ops/shard.h"

#include "model/ops/operands.h"
#include "model/ops/rules.h"

mr_err_t mr_no_shard(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag) {
  return mr_fail(diag, MR_ERR_NORULE, "%s%s%s has no shard rule", e->scope, *e->scope ? ": " : "",
                 e->op->name);
}

mr_err_t mr_shard_whole(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag) { return MR_OK; }
mr_err_t mr_shard_open(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag) { return MR_OPEN; }

void mr__factor_all(const mr_eqn_t *e, mr_factors_t *s, int d, mr_cut_t cut) {
  int k = -1;
  for (int i = 0; i < e->n_in + e->n_out; i++) {
    bool given = i >= e->n_in;
    const mr_aval_t *v = given ? &e->out[i - e->n_in]->aval : &e->in[i]->aval;
    if (v->ndim <= d) continue;
    if (k < 0) k = mr_factor_add(s, v->dim[d], cut);
    if (given)
      mr_factor_out(s, i - e->n_in, d, k);
    else
      mr_factor_in(s, i, d, k);
  }
}

mr_err_t mr__shard_but(const mr_eqn_t *e, mr_factors_t *s, unsigned whole) {
  for (int d = 0; d < e->out[0]->aval.ndim; d++)
    if (!(whole >> d & 1)) mr__factor_all(e, s, d, MR_CUT_EACH);
  return MR_OK;
}

mr_err_t mr_shard_each(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag) {
  return mr__shard_but(e, s, 0);
}

mr_err_t mr__shard_rows(const mr_eqn_t *e, mr_factors_t *s, unsigned in, unsigned out) {
  const mr_aval_t *x = &e->in[0]->aval;
  for (int d = 0; d < x->ndim - 1; d++) {
    int k = mr_factor_add(s, x->dim[d], out ? MR_CUT_SUM : MR_CUT_EACH);
    for (int i = 0; i < e->n_in; i++)
      if (!(in >> i & 1)) mr_factor_in(s, i, d, k);
    for (int i = 0; i < e->n_out; i++)
      if (!(out >> i & 1)) mr_factor_out(s, i, d, k);
  }
  return MR_OK;
}

mr_err_t mr_shard_rows(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag) {
  return mr__shard_rows(e, s, 0, 0);
}

mr_err_t mr_shard_reduce(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag) {
  const mr_aval_t *x = &e->in[0]->aval;
  unsigned mask = mr__reduce_mask(e);
  for (int d = 0, to = 0; d < x->ndim; d++) {
    bool reduced = mask >> d & 1;
    int k = mr_factor_add(s, x->dim[d], reduced ? e->op->shard.folds : MR_CUT_EACH);
    mr_factor_in(s, 0, d, k);
    if (!reduced) mr_factor_out(s, 0, to++, k);
  }
  return MR_OK;
}

static int64_t common_divisor(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b, b = rest;
  }
  return a;
}

/* Where the rests of two dimensions have no divisor in common, nothing is until their products with
   the dimensions behind them are equal. */
mr_err_t mr_shard_reshape(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag) {
  const mr_aval_t *x = &e->in[0]->aval, *y = &e->out[0]->aval;
  int i = 0, j = 0;
  if (!mr_aval_elems(x)) return MR_OK;
  for (int64_t a = 1, b = 1;;) { /* rests of dimensions i and j, which have been begun if not 1 */
    while (a == 1 && i < x->ndim) a = x->dim[i++];
    while (b == 1 && j < y->ndim) b = y->dim[j++];
    if (a == 1 || b == 1) return MR_OK;
    int64_t both = common_divisor(a, b);
    if (both > 1) {
      int k = mr_factor_add(s, both, MR_CUT_EACH);
      mr_factor_in(s, 0, i - 1, k);
      mr_factor_out(s, 0, j - 1, k);
      a /= both, b /= both;
      continue;
    }
    while (a != b)
      if (a < b)
        a *= x->dim[i++];
      else
        b *= y->dim[j++];
    a = b = 1;
  }
}

mr_err_t mr_shard_keys(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag) {
  for (int d = 0; d < e->in[0]->aval.ndim - 1; d++) mr__factor_all(e, s, d, MR_CUT_EACH);
  return MR_OK;
}

mr_err_t mr_shard_seeded(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag) {
  for (int d = 0; d < e->in[1]->aval.ndim; d++) mr__factor_all(e, s, d, MR_CUT_EACH);
  return MR_OK;
}
