/* Softmax over the last dimension; kernels compute bf16 and f32 in f32. */
#include <math.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_softmax(mr_fn_t *f, mr_var_t *x) {
  return mr_emit1(f, &mr_op_softmax, 1, &x, 0, NULL);
}

static mr_err_t softmax_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  if (e->in[0]->aval.ndim < 1) return mr_shape_fail(e, diag, "want at least one dimension");
  if (e->in[0]->aval.dim[e->in[0]->aval.ndim - 1] < 1)
    return mr_shape_fail(e, diag, "want a last dimension of size >= 1");
  return mr_shape_floats(e, out, diag);
}

/* dx = y (dy - sum(dy y)) */
static mr_err_t softmax_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  const mr_aval_t *x = &e->in[0]->aval;
  int last = x->ndim - 1, at[MR_MAX_NDIM];
  for (int i = 0; i < last; i++) at[i] = i;
  mr_var_t *y = e->out[0];
  mr_var_t *sum = mr_lax_reduce_sum(f, mr_lax_mul(f, dout[0], y), 1, &last);
  sum = mr_lax_broadcast_in_dim(f, sum, x->ndim, x->dim, at);
  din[0] = mr_lax_mul(f, y, mr_lax_sub(f, dout[0], sum));
  return mr_rule_done(f);
}

/* The row's maximum is subtracted first; it cancels, so it is constant to derivatives. */
static mr_err_t softmax_open(mr_fn_t *f, const mr_eqn_t *e, mr_var_t **out) {
  mr_var_t *x = e->in[0];
  const mr_aval_t *a = &x->aval;
  int last = a->ndim - 1;
  mr_var_t *top = mr_lax_stop_gradient(f, mr_lax_reduce_max(f, x, 1, &last));
  mr_var_t *w = mr_lax_exp(f, mr_lax_sub(f, x, mr_rows_spread(f, top, a)));
  out[0] = mr_lax_div(f, w, mr_rows_spread(f, mr_lax_reduce_sum(f, w, 1, &last), a));
  return mr_rule_done(f);
}

static bool softmax_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 0) return false;
  return mr_sample_done(s, mr_lax_softmax(s->f, mr_sample_f32(s, -1, 1, 2, 5)));
}

const mr_op_def_t mr_op_softmax = {
    .open = softmax_open,
    .jvp = mr_jvp_symmetric,
    .batch = mr_batch_rows,
    .sample = softmax_sample,
    .name = "softmax",
    .n_in = 1,
    .n_out = 1,
    .shape = softmax_shape,
    .vjp = softmax_vjp,
    .amp = MR_AMP_WIDE,
    .view = mr_view_rows,
    .flop_each = 5,
};
