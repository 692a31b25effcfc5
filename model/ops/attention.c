/* softmax(q k' scale) v of each head, and its backward pass.  q, k, v are three operands (B,T,H,D),
   or one packed operand (B,T,3,H,D).  Output 1 is the log of the sums of exponents, from which the
   backward pass computes the weights again. */
#include "model/ops/lax.h"
#include "model/ops/operands.h"
#include "model/ops/rules.h"

static mr_var_t *emit_attention(mr_fn_t *f, int n, mr_var_t *const *in, float scale) {
  mr_eqn_t *e =
      mr_emit(f, &mr_op_attention, n, in, 1, (mr_attr_t[]){mr_attr_float("scale", scale)}, 2);
  return e ? e->out[0] : NULL;
}

mr_var_t *mr_lax_attention(mr_fn_t *f, mr_var_t *q, mr_var_t *k, mr_var_t *v, float scale) {
  return emit_attention(f, 3, (mr_var_t *[]){q, k, v}, scale);
}

mr_var_t *mr_lax_attention_packed(mr_fn_t *f, mr_var_t *qkv, float scale) {
  return emit_attention(f, 1, &qkv, scale);
}

static bool attention_is_packed(const mr_eqn_t *e) { return e->in[0]->aval.ndim == 5; }

mr_attention_sizes_t mr__attention_sizes(const mr_eqn_t *e) {
  const mr_aval_t *q = &e->in[0]->aval;
  int packed = attention_is_packed(e);
  return (mr_attention_sizes_t){q->dim[0],          q->dim[1], q->dim[2 + packed],
                                q->dim[3 + packed], packed,    e->n_in > 3};
}

bool mr__is_attention(const mr_eqn_t *e) {
  return e->op == &mr_op_attention || e->op == &mr_op_attention_vjp;
}

/* Sets qkv to three values (B,T,H,D). */
static void attention_operands(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *qkv[3]) {
  const mr_aval_t *a = &e->in[0]->aval;
  for (int i = 0; i < 3; i++) {
    if (!attention_is_packed(e)) {
      qkv[i] = e->in[i];
      continue;
    }
    int64_t start[5] = {0, 0, i, 0, 0},
            limit[5] = {a->dim[0], a->dim[1], i + 1, a->dim[3], a->dim[4]};
    mr_var_t *one = mr_lax_slice(f, e->in[0], start, limit);
    qkv[i] = mr_lax_reshape_to(f, one, a->dim[0], a->dim[1], a->dim[3], a->dim[4]);
  }
}

/* q k' scale: (B,H,T,T) in f32, in f64 if q is. */
static mr_var_t *attention_scores(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const qkv[3]) {
  mr_dot_dims_t d = {.n_batch = 2,
                     .lhs_batch = {0, 2},
                     .rhs_batch = {0, 2},
                     .n_contract = 1,
                     .lhs_contract = {3},
                     .rhs_contract = {3}};
  return mr_lax_scale(
      f, mr_attr_get(e, "scale")->f,
      mr_lax_dot_general(f, qkv[0], qkv[1], &d, mr_sum_dtype(e->in[0]->aval.dtype)));
}

/* w (B,H,T,T), v (B,T,H,D) -> w v (B,T,H,D). */
static mr_var_t *attention_mix(mr_fn_t *f, mr_var_t *w, mr_var_t *v) {
  mr_dot_dims_t d = {.n_batch = 2,
                     .lhs_batch = {0, 1},
                     .rhs_batch = {0, 2},
                     .n_contract = 1,
                     .lhs_contract = {3},
                     .rhs_contract = {1}};
  if (!v) return NULL;
  return mr_lax_transpose(f, mr_lax_dot_general(f, w, v, &d, v->aval.dtype), (int[]){0, 2, 1, 3});
}

static mr_err_t attention_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  if (e->n_in != 1 && e->n_in != 3) return mr_shape_fail(e, diag, "want qkv or q, k, v");
  const mr_aval_t *q = &e->in[0]->aval;
  if (e->n_in == 1) {
    if (q->ndim != 5 || q->dim[2] != 3) return mr_shape_fail(e, diag, "want (B,T,3,H,D)");
  } else if (q->ndim != 4 || !mr_aval_equal(q, &e->in[1]->aval) ||
             !mr_aval_equal(q, &e->in[2]->aval)) {
    return mr_shape_fail(e, diag, "want q, k, v of one shape (B,T,H,D)");
  }
  if (!mr_is_float(q->dtype)) return mr_shape_fail(e, diag, "want floats");
  mr_attention_sizes_t s = mr__attention_sizes(e);
  out[0] = mr_aval_of(q->dtype, s.B, s.T, s.H, s.D);
  /* log of the sums of exponents, for the backward pass */
  out[1] = mr_aval_of(mr_sum_dtype(q->dtype), s.B, s.H, s.T);
  return MR_OK;
}

static mr_err_t attention_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout,
                              mr_var_t **din) {
  if (dout[1]) return mr_vjp_open(f, e, dout, din); /* a cotangent of the saved sums */
  if (!dout[0]) return MR_OK;
  mr_var_t *in[6];
  int n = 0;
  for (; n < e->n_in; n++) in[n] = e->in[n];
  in[n++] = e->out[0];
  in[n++] = e->out[1];
  in[n++] = dout[0];
  mr_eqn_t *b = mr_emit(f, &mr_op_attention_vjp, n, in, 1, mr_attr_get(e, "scale"), e->n_in);
  for (int i = 0; b && i < e->n_in; i++) din[i] = b->out[i];
  return mr_rule_done(f);
}

/* softmax(q k' scale) v, and the log of the sums of exponents.  The row's maximum is subtracted
   first; it cancels, so it is constant to derivatives. */
static mr_err_t attention_open(mr_fn_t *f, const mr_eqn_t *e, mr_var_t **out) {
  mr_var_t *qkv[3];
  attention_operands(f, e, qkv);
  mr_var_t *s = attention_scores(f, e, qkv);
  const mr_aval_t *a = s ? &s->aval : &e->in[0]->aval;
  mr_var_t *top = mr_lax_stop_gradient(f, mr_lax_reduce_max(f, s, 1, (int[]){3}));
  mr_var_t *w = mr_lax_exp(f, mr_lax_sub(f, s, mr_rows_spread(f, top, a)));
  mr_var_t *sum = mr_lax_reduce_sum(f, w, 1, (int[]){3});
  w = mr_lax_convert(f, mr_lax_div(f, w, mr_rows_spread(f, sum, a)), e->in[0]->aval.dtype);
  out[0] = attention_mix(f, w, qkv[2]);
  out[1] = mr_lax_add(f, top, mr_lax_log(f, sum));
  return mr_rule_done(f);
}

static bool attention_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 1) return false;
  if (k == 1)
    return mr_sample_done(
        s, mr_lax_attention_packed(s->f, mr_sample_f32(s, -1, 1, 2, 3, 3, 2, 4), 0.5f));
  mr_var_t *q = mr_sample_f32(s, -1, 1, 2, 3, 2, 4), *kk = mr_sample_f32(s, -1, 1, 2, 3, 2, 4);
  return mr_sample_done(s,
                        mr_lax_attention(s->f, q, kk, mr_sample_f32(s, -1, 1, 2, 3, 2, 4), 0.5f));
}

/* Operations of one product (T,D) by (D,T) for all heads. */
static double attention_product(const mr_eqn_t *e) {
  mr_attention_sizes_t s = mr__attention_sizes(e);
  return 2 * (double)(s.B * s.H) * (double)(s.T * s.T) * (double)s.D;
}

/* Two products: the scores, and the weights times v. */
static double attention_flop(const mr_eqn_t *e) { return 2 * attention_product(e); }

/* Images and heads, forward and backward: (B,T,H,D), (B,T,3,H,D) and (B,H,T). */
static mr_err_t attention_shard(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag) {
  mr_attention_sizes_t z = mr__attention_sizes(e);
  int images = mr_factor_add(s, z.B, MR_CUT_EACH), heads = mr_factor_add(s, z.H, MR_CUT_EACH);
  for (int i = 0; i < e->n_in; i++) {
    mr_factor_in(s, i, 0, images);
    mr_factor_in(s, i, e->in[i]->aval.ndim - 2, heads);
  }
  for (int i = 0; i < e->n_out; i++) {
    mr_factor_out(s, i, 0, images);
    mr_factor_out(s, i, e->out[i]->aval.ndim - 2, heads);
  }
  return MR_OK;
}

const mr_op_def_t mr_op_attention = {
    .open = attention_open,
    .batch = mr_batch_merge,
    .sample = attention_sample,
    .name = "attention",
    .n_in = -1,
    .n_out = 2,
    .shape = attention_shape,
    .ad = {.jvp = mr_jvp_open, .vjp = attention_vjp},
    .amp = {MR_AMP_NARROW},
    .cost = {.product = true, .flop = attention_flop},
    .shard = {attention_shard},
};

/* ---- attention_vjp: q, k, v (or qkv), out, lse, dout -> dq, dk, dv (or dqkv) ---- */

static mr_err_t attention_vjp_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  int n = e->n_in - 3;
  const mr_aval_t *q = n > 0 ? &e->in[0]->aval : NULL;
  if ((n != 1 && n != 3) || e->n_out != n || q->ndim != (n == 1 ? 5 : 4))
    return mr_shape_fail(e, diag, "want qkv or q, k, v; then out, lse, dout");
  mr_attention_sizes_t s = mr__attention_sizes(e);
  mr_aval_t o = mr_aval_of(q->dtype, s.B, s.T, s.H, s.D),
            lse = mr_aval_of(mr_sum_dtype(q->dtype), s.B, s.H, s.T);
  for (int i = 1; i < n; i++)
    if (!mr_aval_equal(q, &e->in[i]->aval)) return mr_shape_fail(e, diag, "want q, k, v alike");
  if ((n == 1 && q->dim[2] != 3) || !mr_aval_equal(&e->in[n]->aval, &o) ||
      !mr_aval_equal(&e->in[n + 1]->aval, &lse) || !mr_aval_equal(&e->in[n + 2]->aval, &o))
    return mr_shape_fail(e, diag, "out, lse and dout must be as attention gives them");
  for (int i = 0; i < n; i++) out[i] = e->in[i]->aval;
  return MR_OK;
}

/* Three gradients (B,T,H,D) -> that of the packed operand. */
static mr_var_t *pack_gradients(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const d[3]) {
  const mr_aval_t *a = &e->in[0]->aval;
  mr_var_t *one[3];
  for (int i = 0; i < 3; i++)
    one[i] = mr_lax_reshape_to(f, d[i], a->dim[0], a->dim[1], 1, a->dim[3], a->dim[4]);
  return mr_lax_concatenate(f, 3, one, 2);
}

/* w = exp(s - lse), dv = w' dout, dw = dout v', ds = w (dw - sum(w dw)) scale, dq = ds k, dk = ds'
   q. The kernels add dout out, which is the same sum in fewer terms; of the terms here, the one of
   a weight that is 1 cancels dw exactly, as it must where scores are large. */
static mr_err_t attention_vjp_open(mr_fn_t *f, const mr_eqn_t *e, mr_var_t **out) {
  mr_var_t *qkv[3], *d[3];
  int n = e->n_out;
  mr_dtype_t t = e->in[0]->aval.dtype, wide = mr_sum_dtype(t);
  attention_operands(f, e, qkv);
  mr_var_t *s = attention_scores(f, e, qkv), *lse = e->in[n + 1], *g = e->in[n + 2];
  if (!s) return mr_rule_done(f);
  mr_var_t *w = mr_lax_exp(f, mr_lax_sub(f, s, mr_rows_spread(f, lse, &s->aval)));
  mr_dot_dims_t rows = {.n_batch = 2,
                        .lhs_batch = {0, 2},
                        .rhs_batch = {0, 2},
                        .n_contract = 1,
                        .lhs_contract = {3},
                        .rhs_contract = {3}};
  mr_var_t *dw = mr_lax_dot_general(f, g, qkv[2], &rows, wide);
  mr_var_t *dot = mr_lax_reduce_sum(f, mr_lax_mul(f, w, dw), 1, (int[]){3});
  mr_var_t *ds = mr_lax_mul(f, w, mr_lax_sub(f, dw, mr_rows_spread(f, dot, &s->aval)));
  ds = mr_lax_convert(f, mr_lax_scale(f, mr_attr_get(e, "scale")->f, ds), t);
  const int turn[] = {0, 1, 3, 2};
  d[0] = attention_mix(f, ds, qkv[1]);
  d[1] = attention_mix(f, mr_lax_transpose(f, ds, turn), qkv[0]);
  d[2] = attention_mix(f, mr_lax_transpose(f, mr_lax_convert(f, w, t), turn), g);
  if (n == 1) d[0] = pack_gradients(f, e, d);
  for (int i = 0; i < n; i++) out[i] = d[i];
  return mr_rule_done(f);
}

/* out and lse are computed from q, k, v, because the fused kernel relies on it. */
static bool attention_vjp_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 1) return false;
  mr_var_t *in[6], *dout = mr_sample_f32(s, -1, 1, 2, 3, 2, 4);
  int n = k ? 1 : 3;
  if (k) in[0] = mr_sample_f32(s, -1, 1, 2, 3, 3, 2, 4);
  for (int i = 0; !k && i < 3; i++) in[i] = mr_sample_f32(s, -1, 1, 2, 3, 2, 4);
  mr_attr_t scale = mr_attr_float("scale", 0.5);
  mr_eqn_t *a = mr_emit(s->f, &mr_op_attention, n, in, 1, &scale, 2);
  in[n] = a ? a->out[0] : NULL;
  in[n + 1] = a ? a->out[1] : NULL;
  in[n + 2] = dout;
  mr_eqn_t *e = mr_emit(s->f, op, n + 3, in, 1, &scale, n);
  return mr_sample_done(s, e ? e->out[0] : NULL);
}

/* Five products: the scores again, and the cotangents of weights, v, q and k. */
static double attention_vjp_flop(const mr_eqn_t *e) { return 5 * attention_product(e); }

const mr_op_def_t mr_op_attention_vjp = {
    .open = attention_vjp_open,
    .batch = mr_batch_merge,
    .sample = attention_vjp_sample,
    .name = "attention_vjp",
    .n_in = -1,
    .n_out = -1,
    .shape = attention_vjp_shape,
    .ad = {.jvp = mr_jvp_open, .vjp = mr_vjp_open},
    .amp = {MR_AMP_NARROW},
    .cost = {.product = true, .flop = attention_vjp_flop},
    .shard = {attention_shard},
};
