/* x w + b in one op, since backends add the bias inside the product, where the tile is still in
   registers.  As primitives it is dot_general and add; w may be transposed, as PyTorch keeps it. */
#include "model/ops/lax.h"
#include "model/ops/operands.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_linear(mr_fn_t *f, mr_var_t *x, mr_var_t *w, mr_var_t *b, bool transposed) {
  return mr_emit1(f, &mr_op_linear, b ? 3 : 2, (mr_var_t *[]){x, w, b}, 1,
                  (mr_attr_t[]){mr_attr_bool("transposed", transposed)});
}

static bool linear_is_transposed(const mr_eqn_t *e) {
  return mr_attr_get(e, "transposed")->i[0] != 0;
}

static mr_err_t linear_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  if (e->n_in != 2 && e->n_in != 3) return mr_shape_fail(e, diag, "want x, w and perhaps b");
  const mr_aval_t *x = &e->in[0]->aval, *w = &e->in[1]->aval;
  int k = linear_is_transposed(e) ? 1 : 0;
  if (x->ndim < 1 || w->ndim != 2 || w->dim[k] != x->dim[x->ndim - 1])
    return mr_shape_fail(e, diag, "x's last size is not the kernel's input size");
  for (int i = 1; i < e->n_in; i++)
    if (e->in[i]->aval.dtype != x->dtype) return mr_shape_fail(e, diag, "want one dtype");
  if (e->n_in == 3 && (e->in[2]->aval.ndim != 1 || e->in[2]->aval.dim[0] != w->dim[1 - k]))
    return mr_shape_fail(e, diag, "the bias has another size than the kernel's output");
  if (!mr_is_float(x->dtype)) return mr_shape_fail(e, diag, "want floats");
  *out = *x;
  out->dim[x->ndim - 1] = w->dim[1 - k];
  return MR_OK;
}

/* dx = dout w', dw = x' dout (or its transpose), db = sum of dout over the rows. */
static mr_err_t linear_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  mr_var_t *x = e->in[0], *w = e->in[1];
  int n = x->aval.ndim, k = linear_is_transposed(e) ? 1 : 0, rows[MR_MAX_NDIM];
  mr_dot_dims_t dx = {.n_contract = 1, .lhs_contract = {n - 1}, .rhs_contract = {1 - k}};
  mr_dot_dims_t dw = {.n_contract = n - 1};
  for (int i = 0; i < n - 1; i++) rows[i] = dw.lhs_contract[i] = dw.rhs_contract[i] = i;
  /* db comes first, so that the loop that computes dout can still be fused with the sum. */
  if (e->n_in == 3) din[2] = mr_lax_reduce_sum(f, dout[0], n - 1, rows);
  din[0] = mr_lax_dot_general(f, dout[0], w, &dx, x->aval.dtype);
  din[1] = mr_lax_dot_general(f, k ? dout[0] : x, k ? x : dout[0], &dw, w->aval.dtype);
  return mr_rule_done(f);
}

static mr_err_t linear_jvp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout) {
  bool t = linear_is_transposed(e);
  if (din[0]) dout[0] = mr_lax_linear(f, din[0], e->in[1], NULL, t);
  if (din[1]) dout[0] = mr_tangent_add(f, dout[0], mr_lax_linear(f, e->in[0], din[1], NULL, t));
  if (e->n_in == 3 && din[2]) {
    const mr_aval_t *y = &e->out[0]->aval;
    mr_var_t *b = mr_lax_broadcast_in_dim(f, din[2], y->ndim, y->dim, (int[]){y->ndim - 1});
    dout[0] = mr_tangent_add(f, dout[0], b);
  }
  return mr_rule_done(f);
}

static mr_err_t linear_open(mr_fn_t *f, const mr_eqn_t *e, mr_var_t **out) {
  const mr_aval_t *y = &e->out[0]->aval;
  mr_dot_dims_t d = {.n_contract = 1, .lhs_contract = {y->ndim - 1}};
  d.rhs_contract[0] = linear_is_transposed(e) ? 1 : 0;
  out[0] = mr_lax_dot_general(f, e->in[0], e->in[1], &d, y->dtype);
  if (e->n_in == 3) {
    mr_var_t *b = mr_lax_broadcast_in_dim(f, e->in[2], y->ndim, y->dim, (int[]){y->ndim - 1});
    out[0] = mr_lax_add(f, out[0], b);
  }
  return mr_rule_done(f);
}

static bool linear_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 2) return false;
  mr_var_t *x = mr_sample_f32(s, -1, 1, 2, 3, 4);
  mr_var_t *w = k == 1 ? mr_sample_f32(s, -1, 1, 2, 4) : mr_sample_f32(s, -1, 1, 4, 2);
  mr_var_t *b = k < 2 ? mr_sample_f32(s, -1, 1, 2) : NULL;
  return mr_sample_done(s, mr_lax_linear(s->f, x, w, b, k == 1));
}

static double linear_flop(const mr_eqn_t *e) {
  const mr_aval_t *x = &e->in[0]->aval;
  double k = 2 * (double)x->dim[x->ndim - 1] + (e->n_in == 3);
  return k * (double)mr_aval_elems(&e->out[0]->aval);
}

static void linear_sides(const mr_eqn_t *e, mr_side_t *x, mr_side_t *w) {
  int n = e->in[0]->aval.ndim, k = linear_is_transposed(e) ? 1 : 0;
  *x = (mr_side_t){.n_free = n - 1, .n_contract = 1, .contract = {n - 1}};
  *w = (mr_side_t){.n_free = 1, .free = {1 - k}, .n_contract = 1, .contract = {k}};
  for (int i = 0; i < n - 1; i++) x->free[i] = i;
}

/* With a bias the terms are WHOLE: each device would add it.  The open form adds it to the sum. */
static mr_err_t linear_shard(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag) {
  const mr_aval_t *x = &e->in[0]->aval, *w = &e->in[1]->aval;
  int last = x->ndim - 1, terms = linear_is_transposed(e) ? 1 : 0, k;
  for (int d = 0; d < last; d++) {
    k = mr_factor_add(s, x->dim[d], MR_CUT_EACH);
    mr_factor_in(s, 0, d, k), mr_factor_out(s, 0, d, k);
  }
  k = mr_factor_add(s, w->dim[1 - terms], MR_CUT_EACH);
  mr_factor_in(s, 1, 1 - terms, k), mr_factor_out(s, 0, last, k);
  if (e->n_in == 3) return mr_factor_in(s, 2, 0, k), MR_OK;
  k = mr_factor_add(s, x->dim[last], MR_CUT_SUM);
  mr_factor_in(s, 0, last, k), mr_factor_in(s, 1, terms, k);
  return MR_OK;
}

const mr_op_def_t mr_op_linear = {
    .open = linear_open,
    .batch = mr_batch_rows,
    .sample = linear_sample,
    .name = "linear",
    .n_in = -1,
    .n_out = 1,
    .shape = linear_shape,
    .ad = {.jvp = linear_jvp, .vjp = linear_vjp},
    .fuse = {.view = mr_view_rows, .sides = linear_sides},
    .amp = {MR_AMP_NARROW},
    .cost = {.product = true, .flop = linear_flop},
    .shard = {linear_shard},
};
