/* Softmax over the last dimension, and the cross-entropy of logits and smoothed labels with its
   backward pass.  Kernels compute bf16 and f32 in f32. */
#include "base/dataset.h"
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
    .batch = mr_batch_rows,
    .sample = softmax_sample,
    .name = "softmax",
    .n_in = 1,
    .n_out = 1,
    .shape = softmax_shape,
    .ad = {.jvp = mr_jvp_symmetric, .vjp = softmax_vjp},
    .fuse = {.view = mr_view_rows},
    .amp = {MR_AMP_WIDE},
    .cost = {.each = 5},
    .shard = {mr_shard_rows},
};

/* ---- softmax_cross_entropy ---- */

mr_var_t *mr_lax_softmax_cross_entropy(mr_fn_t *f, mr_var_t *logits, mr_var_t *labels,
                                       float smoothing) {
  return mr_emit1(f, &mr_op_softmax_cross_entropy, 2, (mr_var_t *[]){logits, labels}, 1,
                  (mr_attr_t[]){mr_attr_float("smoothing", smoothing)});
}

/* Returns the smoothed one-hot rows (B,C) of e's labels. */
static mr_var_t *xent_target(mr_fn_t *f, const mr_eqn_t *e) {
  const mr_aval_t *a = &e->in[0]->aval;
  double smoothing = mr_attr_get(e, "smoothing")->f;
  mr_var_t *at = mr_lax_iota(f, MR_I32, 2, a->dim, 1);
  mr_var_t *hot = mr_lax_eq(f, at, mr_lax_broadcast_in_dim(f, e->in[1], 2, a->dim, (int[]){0}));
  mr_var_t *one = mr_lax_scale(f, 1 - smoothing, mr_lax_convert(f, hot, a->dtype));
  mr_var_t *rest = mr_literal(f, a->dtype, smoothing / (double)a->dim[1]);
  return mr_lax_add(f, one, rest);
}

/* Returns v (B,...) with zeros in the rows of label MR_LABEL_NONE. */
static mr_var_t *xent_zero_rows(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *v) {
  if (!v) return NULL;
  mr_var_t *none = mr_lax_eq(f, e->in[1], mr_literal(f, MR_I32, MR_LABEL_NONE));
  none = none ? mr_lax_broadcast_in_dim(f, none, v->aval.ndim, v->aval.dim, (int[]){0}) : NULL;
  return mr_lax_select_n(f, none, v, mr_lax_full(f, &v->aval, 0));
}

static mr_err_t xent_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_aval_t *x = &e->in[0]->aval, *y = &e->in[1]->aval;
  if (x->ndim != 2 || (x->dtype != MR_F32 && x->dtype != MR_F64) || y->ndim != 1 ||
      y->dtype != MR_I32 || x->dim[0] != y->dim[0])
    return mr_shape_fail(e, diag, "want logits f32[B,C] (or f64) and labels i32[B]");
  if (!x->dim[1]) return mr_shape_fail(e, diag, "want one class or more");
  double smoothing = mr_attr_get(e, "smoothing")->f;
  if (!(smoothing >= 0 && smoothing < 1)) return mr_shape_fail(e, diag, "want smoothing in [0,1)");
  out[0] = mr_aval_of(x->dtype, x->dim[0]);
  return MR_OK;
}

static mr_err_t xent_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] = mr_emit1(f, &mr_op_softmax_cross_entropy_vjp, 3,
                    (mr_var_t *[]){e->in[0], e->in[1], dout[0]}, 1, mr_attr_get(e, "smoothing"));
  return mr_rule_done(f);
}

/* The tangent of a loss is the dot product of its row's gradient and tangent. */
static mr_err_t xent_jvp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout) {
  if (!din[0]) return MR_OK;
  mr_var_t *one = mr_lax_full(f, &e->out[0]->aval, 1);
  mr_var_t *g = mr_emit1(f, &mr_op_softmax_cross_entropy_vjp, 3,
                         (mr_var_t *[]){e->in[0], e->in[1], one}, 1, mr_attr_get(e, "smoothing"));
  dout[0] = mr_lax_reduce_sum(f, mr_lax_mul(f, g, din[0]), 1, (int[]){1});
  return mr_rule_done(f);
}

/* loss = log sum exp(x) - sum target x */
static mr_err_t xent_open(mr_fn_t *f, const mr_eqn_t *e, mr_var_t **out) {
  mr_var_t *x = e->in[0], *target = xent_target(f, e);
  const mr_aval_t *a = &x->aval;
  const int last = 1;
  mr_var_t *top = mr_lax_stop_gradient(f, mr_lax_reduce_max(f, x, 1, &last));
  mr_var_t *w = mr_lax_exp(f, mr_lax_sub(f, x, mr_rows_spread(f, top, a)));
  mr_var_t *lse = mr_lax_add(f, top, mr_lax_log(f, mr_lax_reduce_sum(f, w, 1, &last)));
  out[0] = mr_lax_sub(f, lse, mr_lax_reduce_sum(f, mr_lax_mul(f, target, x), 1, &last));
  out[0] = xent_zero_rows(f, e, out[0]);
  return mr_rule_done(f);
}

static bool softmax_cross_entropy_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 1) return false;
  mr_var_t *x = mr_sample_f32(s, -1, 1, 3, 5), *label = mr_sample_dims(s, MR_I32, 0, 4, 3);
  return mr_sample_done(s, mr_lax_softmax_cross_entropy(s->f, x, label, k ? 0.1f : 0));
}

const mr_op_def_t mr_op_softmax_cross_entropy = {
    .open = xent_open,
    .batch = mr_batch_merge,
    .sample = softmax_cross_entropy_sample,
    .name = "softmax_cross_entropy",
    .n_in = 2,
    .n_out = 1,
    .shape = xent_shape,
    .ad = {.jvp = xent_jvp, .vjp = xent_vjp},
    .amp = {MR_AMP_WIDE},
    .cost = {.each = 5},
    .shard = {mr_shard_rows},
};

/* ---- softmax_cross_entropy_vjp: logits, labels, dloss -> dlogits ---- */

static mr_err_t xent_vjp_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_aval_t *x = &e->in[0]->aval;
  mr_aval_t row = mr_aval(x->dtype, 1, x->dim), label = mr_aval(MR_I32, 1, x->dim);
  if (x->ndim != 2 || (x->dtype != MR_F32 && x->dtype != MR_F64) ||
      !mr_aval_equal(&e->in[1]->aval, &label) || !mr_aval_equal(&e->in[2]->aval, &row))
    return mr_shape_fail(
        e, diag, "want logits f32[B,C] (or f64), labels i32[B] and dloss[B] of their dtype");
  return mr_shape_same(e, out, diag);
}

static mr_err_t xent_vjp_open(mr_fn_t *f, const mr_eqn_t *e, mr_var_t **out) {
  mr_var_t *p = mr_lax_softmax(f, e->in[0]);
  mr_var_t *d = mr_rows_spread(f, e->in[2], &e->in[0]->aval);
  out[0] = mr_lax_mul(f, mr_lax_sub(f, p, xent_target(f, e)), d);
  out[0] = xent_zero_rows(f, e, out[0]);
  return mr_rule_done(f);
}

static bool softmax_cross_entropy_vjp_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 0) return false;
  mr_var_t *in[] = {mr_sample_f32(s, -1, 1, 3, 5), mr_sample_dims(s, MR_I32, 0, 4, 3),
                    mr_sample_f32(s, -1, 1, 3)};
  mr_attr_t smoothing = mr_attr_float("smoothing", 0.1);
  return mr_sample_done(s, mr_emit1(s->f, op, 3, in, 1, &smoothing));
}

const mr_op_def_t mr_op_softmax_cross_entropy_vjp = {
    .open = xent_vjp_open,
    .batch = mr_batch_merge,
    .sample = softmax_cross_entropy_vjp_sample,
    .name = "softmax_cross_entropy_vjp",
    .n_in = 3,
    .n_out = 1,
    .shape = xent_vjp_shape,
    .ad = {.jvp = mr_jvp_open, .vjp = mr_vjp_open},
    .amp = {MR_AMP_WIDE},
    .cost = {.each = 5},
    .shard = {mr_shard_rows},
};
