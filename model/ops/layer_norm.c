/* Layer norm: rows normalized to mean 0 and deviation 1, then scaled and shifted; and its backward
   pass, which reads mean and 1/deviation as outputs 1 and 2. */
#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_layer_norm(mr_fn_t *f, mr_var_t *x, mr_var_t *scale, mr_var_t *bias, float eps,
                            bool two_pass, mr_dtype_t out) {
  mr_eqn_t *e = mr_emit(f, &mr_op_layer_norm, 3, (mr_var_t *[]){x, scale, bias}, 3,
                        (mr_attr_t[]){mr_attr_float("eps", eps), mr_attr_dtype("dtype", out),
                                      mr_attr_bool("two_pass", two_pass)},
                        3);
  return e ? e->out[0] : NULL;
}

/* Outputs: y, then mean and 1/deviation of each row for the backward pass. */
static mr_err_t layer_norm_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_aval_t *x = &e->in[0]->aval;
  if (x->ndim < 1) return mr_shape_fail(e, diag, "want at least one dimension");
  mr_dtype_t t = mr_sum_dtype(x->dtype);
  mr_aval_t row = mr_aval_of(t, x->dim[x->ndim - 1]);
  if (!mr_aval_equal(&e->in[1]->aval, &row) || !mr_aval_equal(&e->in[2]->aval, &row))
    return mr_shape_fail(e, diag, "scale and bias must be of x's last size, f32, or f64 as x is");
  if (!mr_is_float(x->dtype) || !mr_is_float((mr_dtype_t)mr_attr_get(e, "dtype")->i[0]))
    return mr_shape_fail(e, diag, "want floats");
  out[0] = *x;
  out[0].dtype = (mr_dtype_t)mr_attr_get(e, "dtype")->i[0];
  out[1] = out[2] = mr_aval(t, x->ndim - 1, x->dim);
  return MR_OK;
}

static mr_err_t layer_norm_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout,
                               mr_var_t **din) {
  if (dout[1] || dout[2])
    return mr_vjp_open(f, e, dout, din); /* a cotangent of the saved statistics */
  if (!dout[0]) return MR_OK;
  mr_var_t *in[] = {e->in[0], e->in[1], e->out[1], e->out[2], dout[0]};
  mr_eqn_t *b = mr_emit(f, &mr_op_layer_norm_vjp, 5, in, 0, NULL, 3);
  for (int i = 0; b && i < 3; i++) din[i] = b->out[i];
  return mr_rule_done(f);
}

/* y = (x - mean) * (rsqrt(var + eps) * scale) + bias, in f32, or f64 if x is. */
static mr_err_t layer_norm_open(mr_fn_t *f, const mr_eqn_t *e, mr_var_t **out) {
  mr_dtype_t t = e->in[1]->aval.dtype;
  mr_var_t *x = mr_lax_convert(f, e->in[0], t);
  const mr_aval_t *a = &e->in[0]->aval;
  int last = a->ndim - 1;
  double per = 1.0 / (double)a->dim[last];
  mr_var_t *mean = mr_lax_scale(f, per, mr_lax_reduce_sum(f, x, 1, &last)), *var;
  mr_var_t *centred = mr_lax_sub(f, x, mr_rows_spread(f, mean, a));
  if (mr_attr_get(e, "two_pass")->i[0]) {
    var = mr_lax_reduce_sum(f, mr_lax_integer_pow(f, centred, 2), 1, &last);
    var = mr_lax_scale(f, per, var);
  } else {
    var = mr_lax_reduce_sum(f, mr_lax_integer_pow(f, x, 2), 1, &last);
    var = mr_lax_sub(f, mr_lax_scale(f, per, var), mr_lax_integer_pow(f, mean, 2));
    var = mr_lax_max(f, mr_literal(f, t, 0), var);
  }
  mr_var_t *eps = mr_literal(f, t, mr_attr_get(e, "eps")->f);
  mr_var_t *rstd = mr_lax_rsqrt(f, mr_lax_add(f, var, eps));
  mr_var_t *gain = mr_lax_mul(f, mr_rows_spread(f, rstd, a), mr_row_repeat(f, e->in[1], a));
  mr_var_t *y = mr_lax_add(f, mr_lax_mul(f, centred, gain), mr_row_repeat(f, e->in[2], a));
  out[0] = mr_lax_convert(f, y, e->out[0]->aval.dtype);
  out[1] = mean;
  out[2] = rstd;
  return mr_rule_done(f);
}

static bool layer_norm_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 1) return false;
  mr_var_t *x = mr_sample_f32(s, -1, 1, 2, 3, 5);
  mr_var_t *scale = mr_sample_f32(s, 0.5, 1.5, 5), *bias = mr_sample_f32(s, -1, 1, 5);
  return mr_sample_done(s, mr_lax_layer_norm(s->f, x, scale, bias, 1e-3f, k == 1, MR_F32));
}

/* Scale and bias belong to all rows. */
static mr_err_t layer_norm_shard(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag) {
  return mr__shard_rows(e, s, 1u << 1 | 1u << 2, 0);
}

const mr_op_def_t mr_op_layer_norm = {
    .open = layer_norm_open,
    .batch = mr_batch_rows,
    .sample = layer_norm_sample,
    .name = "layer_norm",
    .n_in = 3,
    .n_out = 3,
    .shape = layer_norm_shape,
    .ad = {.jvp = mr_jvp_open, .vjp = layer_norm_vjp},
    .fuse = {.view = mr_view_rows},
    .amp = {MR_AMP_WIDE, .narrows = true},
    .cost = {.cheap = true, .each = 8},
    .shard = {layer_norm_shard},
};

/* ---- layer_norm_vjp: x, scale, mean, rstd, dy -> dx, dscale, dbias ---- */

static mr_err_t layer_norm_vjp_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_aval_t *x = &e->in[0]->aval;
  if (x->ndim < 1) return mr_shape_fail(e, diag, "want at least one dimension");
  mr_dtype_t t = mr_sum_dtype(x->dtype);
  mr_aval_t row = mr_aval_of(t, x->dim[x->ndim - 1]), per = mr_aval(t, x->ndim - 1, x->dim);
  if (!mr_aval_equal(&e->in[1]->aval, &row) || !mr_aval_equal(&e->in[2]->aval, &per) ||
      !mr_aval_equal(&e->in[3]->aval, &per))
    return mr_shape_fail(
        e, diag, "want scale of x's last size, mean and rstd of its rows, f32, or f64 as x is");
  if (!mr_aval_same_shape(&e->in[4]->aval, x))
    return mr_shape_fail(e, diag, "dy must have x's shape");
  out[0] = e->in[0]->aval;
  out[1] = out[2] = e->in[1]->aval;
  return MR_OK;
}

/* h = (x - mean) rstd, g = dy scale: dx = rstd (g - mean(g) - h mean(g h)). */
static mr_err_t layer_norm_vjp_open(mr_fn_t *f, const mr_eqn_t *e, mr_var_t **out) {
  mr_dtype_t t = e->in[1]->aval.dtype;
  const mr_aval_t *a = &e->in[0]->aval;
  int last = a->ndim - 1, rows[MR_MAX_NDIM];
  for (int i = 0; i < last; i++) rows[i] = i;
  double per = 1.0 / (double)a->dim[last];
  mr_var_t *x = mr_lax_convert(f, e->in[0], t), *dy = mr_lax_convert(f, e->in[4], t);
  mr_var_t *rstd = mr_rows_spread(f, e->in[3], a);
  mr_var_t *h = mr_lax_mul(f, mr_lax_sub(f, x, mr_rows_spread(f, e->in[2], a)), rstd);
  mr_var_t *g = mr_lax_mul(f, dy, mr_row_repeat(f, e->in[1], a));
  mr_var_t *mg = mr_lax_scale(f, per, mr_lax_reduce_sum(f, g, 1, &last));
  mr_var_t *mgh = mr_lax_scale(f, per, mr_lax_reduce_sum(f, mr_lax_mul(f, g, h), 1, &last));
  mr_var_t *dx = mr_lax_sub(f, g, mr_rows_spread(f, mg, a));
  dx = mr_lax_sub(f, dx, mr_lax_mul(f, h, mr_rows_spread(f, mgh, a)));
  out[0] = mr_lax_convert(f, mr_lax_mul(f, rstd, dx), a->dtype);
  out[1] = mr_lax_reduce_sum(f, mr_lax_mul(f, dy, h), last, rows);
  out[2] = mr_lax_reduce_sum(f, dy, last, rows);
  return mr_rule_done(f);
}

static bool layer_norm_vjp_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 0) return false;
  mr_var_t *in[] = {mr_sample_f32(s, -1, 1, 2, 3, 5), mr_sample_f32(s, 0.5, 1.5, 5),
                    mr_sample_f32(s, -0.5, 0.5, 2, 3), mr_sample_f32(s, 0.5, 2, 2, 3),
                    mr_sample_f32(s, -1, 1, 2, 3, 5)};
  mr_eqn_t *e = mr_emit(s->f, op, 5, in, 0, NULL, 3);
  return mr_sample_done(s, e ? e->out[0] : NULL);
}

/* dscale and dbias are sums over the rows. */
static mr_err_t layer_norm_vjp_shard(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag) {
  return mr__shard_rows(e, s, 1u << 1, 1u << 1 | 1u << 2);
}

const mr_op_def_t mr_op_layer_norm_vjp = {
    .open = layer_norm_vjp_open,
    .batch = mr_batch_open,
    .sample = layer_norm_vjp_sample,
    .name = "layer_norm_vjp",
    .n_in = 5,
    .n_out = 3,
    .shape = layer_norm_vjp_shape,
    .ad = {.jvp = mr_jvp_open, .vjp = mr_vjp_open},
    .amp = {MR_AMP_WIDE},
    .cost = {.each = 14},
    .shard = {layer_norm_vjp_shard},
};
