/* One function an op: appends it to a graph under construction and returns its value.

   Source: mr_lax_NAME is jax.lax.NAME (jax 0.10), its meaning at kinks, NaN and overflow included,
   unless its line says another.  Errors: all return NULL on failure, with the sentence in f->diag,
   which names op, scope and both avals (MR_ERR_SHAPE where shapes, dtypes or axes do not fit), and
   pass a NULL operand on without a sentence of their own.  dtypes are f32, bf16 or f64 (the
   oracle's) unless said; sizes may be 0 unless said. */
#ifndef MR_MODEL_OPS_LAX_H
#define MR_MODEL_OPS_LAX_H

#include "base/decls.h"
#include "model/ir/fn.h"
#include "model/ir/op.h"
#include "model/ops/gelu.h"

MR_BEGIN_DECLS

/* ---- elementwise: operands of one dtype and one shape, or one of them a scalar, which is
   repeated; the result has that shape.  Arithmetic, comparisons, sign, abs, neg, max and min also
   of integers, which wrap; max, min and comparisons also of bool; abs of no unsigned one ---- */
mr_var_t *mr_lax_add(mr_fn_t *f, mr_var_t *a, mr_var_t *b);
mr_var_t *mr_lax_add_any(mr_fn_t *f, mr_var_t *a, mr_var_t *b); /* two cotangents, one shape */
mr_var_t *mr_lax_sub(mr_fn_t *f, mr_var_t *a, mr_var_t *b);
mr_var_t *mr_lax_mul(mr_fn_t *f, mr_var_t *a, mr_var_t *b);
mr_var_t *mr_lax_div(mr_fn_t *f, mr_var_t *a, mr_var_t *b);
mr_var_t *mr_lax_max(mr_fn_t *f, mr_var_t *a, mr_var_t *b); /* NaN if one is NaN */
mr_var_t *mr_lax_min(mr_fn_t *f, mr_var_t *a, mr_var_t *b);
mr_var_t *mr_lax_eq(mr_fn_t *f, mr_var_t *a, mr_var_t *b); /* bool */
mr_var_t *mr_lax_neg(mr_fn_t *f, mr_var_t *x);
mr_var_t *mr_lax_sign(mr_fn_t *f, mr_var_t *x); /* -1, 0 or 1; NaN stays */
mr_var_t *mr_lax_exp(mr_fn_t *f, mr_var_t *x);
mr_var_t *mr_lax_log(mr_fn_t *f, mr_var_t *x);
mr_var_t *mr_lax_tanh(mr_fn_t *f, mr_var_t *x);
mr_var_t *mr_lax_erf(mr_fn_t *f, mr_var_t *x); /* bf16 and f32 in f32 */
mr_var_t *mr_lax_sqrt(mr_fn_t *f, mr_var_t *x);
mr_var_t *mr_lax_rsqrt(mr_fn_t *f, mr_var_t *x);
mr_var_t *mr_lax_sin(mr_fn_t *f, mr_var_t *x);
mr_var_t *mr_lax_cos(mr_fn_t *f, mr_var_t *x);
mr_var_t *mr_lax_log1p(mr_fn_t *f, mr_var_t *x);
mr_var_t *mr_lax_expm1(mr_fn_t *f, mr_var_t *x);
mr_var_t *mr_lax_logistic(mr_fn_t *f, mr_var_t *x);
mr_var_t *mr_lax_abs(mr_fn_t *f, mr_var_t *x); /* slope 1 at 0 */
mr_var_t *mr_lax_floor(mr_fn_t *f, mr_var_t *x);
mr_var_t *mr_lax_pow(mr_fn_t *f, mr_var_t *a, mr_var_t *b);
mr_var_t *mr_lax_ne(mr_fn_t *f, mr_var_t *a, mr_var_t *b); /* bool, as eq and those that follow */
mr_var_t *mr_lax_lt(mr_fn_t *f, mr_var_t *a, mr_var_t *b);
mr_var_t *mr_lax_le(mr_fn_t *f, mr_var_t *a, mr_var_t *b);
mr_var_t *mr_lax_gt(mr_fn_t *f, mr_var_t *a, mr_var_t *b);
mr_var_t *mr_lax_ge(mr_fn_t *f, mr_var_t *a, mr_var_t *b);
/* which (bool, a scalar or of the cases' shape) false: a, true: b. */
mr_var_t *mr_lax_select_n(mr_fn_t *f, mr_var_t *which, mr_var_t *a, mr_var_t *b);
mr_var_t *mr_lax_integer_pow(mr_fn_t *f, mr_var_t *x, int y); /* of integers y >= 0; x^0 is 1 */
mr_var_t *mr_lax_scale(mr_fn_t *f, double s, mr_var_t *x);    /* mul s x, s rounded to x's dtype */
/* convert_element_type: x itself if it has the dtype already; floats to integers towards 0, to bool
   whether it is not 0.  f32, bf16, f64, i32, u32, bool. */
mr_var_t *mr_lax_convert(mr_fn_t *f, mr_var_t *x, mr_dtype_t to);

/* x of any dtype, of which derivatives say that it is constant.  Source: jax.lax.stop_gradient. */
mr_var_t *mr_lax_stop_gradient(mr_fn_t *f, mr_var_t *x);

/* x, but to passes another value: what is computed from it is not merged with what was. */
mr_var_t *mr_lax_optimization_barrier(mr_fn_t *f, mr_var_t *x);

/* ---- draws by key: u32[2] as jax.random's, or u32[...,2]: as many, each of which draws dim[ndim];
   the result has the keys' leading dimensions, then dim.  The same values as base/random.h, in the
   layout that f asks (fn.h mr_key_layout_enter).  MR_ERR_SHAPE: a key of another dtype or shape, a
   negative size, more than MR_MAX_NDIM dimensions.  Source: jax.random.NAME (jax 0.10) ---- */
/* u32, 32 uniform bits each. */
mr_var_t *mr_lax_random_bits(mr_fn_t *f, mr_var_t *key, int ndim, const int64_t *dim);
mr_var_t *mr_lax_random_uniform(mr_fn_t *f, mr_var_t *key, float lo, float hi, int ndim,
                                const int64_t *dim); /* f32 in [lo,hi) */
/* f32, standard normals. */
mr_var_t *mr_lax_random_normal(mr_fn_t *f, mr_var_t *key, int ndim, const int64_t *dim);
/* f32, standard normals within (lo,hi), infinite ones too; MR_ERR_SHAPE unless lo < hi. */
mr_var_t *mr_lax_random_truncated_normal(mr_fn_t *f, mr_var_t *key, float lo, float hi, int ndim,
                                         const int64_t *dim);
/* i32 in [lo,hi); lo where hi <= lo. */
mr_var_t *mr_lax_random_randint(mr_fn_t *f, mr_var_t *key, int32_t lo, int32_t hi, int ndim,
                                const int64_t *dim);
/* i32[n]: 0..n-1 shuffled, 0 <= n < 2^31. */
mr_var_t *mr_lax_random_permutation(mr_fn_t *f, mr_var_t *key, int64_t n);
/* bool, true with probability p. */
mr_var_t *mr_lax_random_bernoulli(mr_fn_t *f, mr_var_t *key, float p, int ndim, const int64_t *dim);
mr_var_t *mr_lax_random_split(mr_fn_t *f, mr_var_t *key, int64_t n); /* u32[n,2] */
/* key's shape; data u32[], or a number for each key. */
mr_var_t *mr_lax_random_fold_in(mr_fn_t *f, mr_var_t *key, mr_var_t *data);
/* x's shape and dtype: x / (1 - rate) where a coin of that probability falls so, else 0; rate in
   [0,1].  One key u32[2].  Source: flax.nnx.Dropout, draws included. */
mr_var_t *mr_lax_dropout_by_key(mr_fn_t *f, mr_var_t *x, float rate, mr_var_t *key);

/* ---- made from nothing; any dtype ---- */
/* like's dtype and shape; value is rounded to the dtype. */
mr_var_t *mr_lax_full(mr_fn_t *f, const mr_aval_t *like, double value);
/* 0, 1, 2, ... along one dimension. */
mr_var_t *mr_lax_iota(mr_fn_t *f, mr_dtype_t dtype, int ndim, const int64_t *dim, int dimension);
/* (n,n).  Source: jax.numpy.eye. */
mr_var_t *mr_lax_eye(mr_fn_t *f, mr_dtype_t dtype, int64_t n);

/* ---- shapes; any dtype, at most MR_MAX_NDIM dimensions ---- */
/* The same elements in the same row-major order; their number must be dim's product. */
mr_var_t *mr_lax_reshape(mr_fn_t *f, mr_var_t *x, int ndim, const int64_t *dim);
#define mr_lax_reshape_to(f, x, ...) mr_lax_reshape(f, x, MR_DIMS(__VA_ARGS__))
/* Without the n dimensions of size 1 that dims names. */
mr_var_t *mr_lax_squeeze(mr_fn_t *f, mr_var_t *x, int n, const int *dims);
/* Dimension i of the result is dimension perm[i] of x; perm names each of x's once. */
mr_var_t *mr_lax_transpose(mr_fn_t *f, mr_var_t *x, const int *perm);
/* x's dimension i becomes dimension at[i] of the result (at ascending); x's size there is the
   result's, or 1. */
mr_var_t *mr_lax_broadcast_in_dim(mr_fn_t *f, mr_var_t *x, int ndim, const int64_t *dim,
                                  const int *at);
/* x[start:limit] in each dimension, 0 <= start <= limit <= its size. */
mr_var_t *mr_lax_slice(mr_fn_t *f, mr_var_t *x, const int64_t *start, const int64_t *limit);
/* low and high zeros (counts >= 0) around each dimension. */
mr_var_t *mr_lax_pad(mr_fn_t *f, mr_var_t *x, const int64_t *low, const int64_t *high);
/* n >= 1 values of one dtype that differ along that dimension alone. */
mr_var_t *mr_lax_concatenate(mr_fn_t *f, int n, mr_var_t *const *x, int dimension);

mr_var_t *mr_lax_rev(mr_fn_t *f, mr_var_t *x, int n, const int *dims); /* turned round along dims */
/* Rows of x (N,...) by index i32 (any shape) -> (index's shape, x's other dimensions); an index
   outside [0,N) is moved to the nearest row.  The cotangents of a row that is taken more than once
   are added in order. */
mr_var_t *mr_lax_take(mr_fn_t *f, mr_var_t *x, mr_var_t *index);

/* ---- reductions over n different axes of x, which the result has no more; f32 and bf16 in f32,
   rounded once; sums of integers wrap; an empty sum is 0, an empty max -inf or the least integer.
   Source of mr_lax_sum_squares: optax.global_norm
   ---- */
/* x's shape: the sums up to each element along axis, from the end if reverse. */
mr_var_t *mr_lax_cumsum(mr_fn_t *f, mr_var_t *x, int axis, bool reverse);
mr_var_t *mr_lax_reduce_sum(mr_fn_t *f, mr_var_t *x, int n, const int *axes);
mr_var_t *mr_lax_reduce_max(mr_fn_t *f, mr_var_t *x, int n, const int *axes);
/* n tensors of f32 or bf16 -> f32[]: the squares of all elements, summed in f64.  With f64 among
   them, f64[]. */
mr_var_t *mr_lax_sum_squares(mr_fn_t *f, int n, mr_var_t *const *x);

/* ---- products of two values of one dtype: accumulated in f32 (f64 in f64), rounded once to `out`;
   precision of f32 as f asks (fn.h mr_precision_enter) ---- */
/* d names dimensions of both sides, in pairs of one size.  Result: batch dimensions, free
 * dimensions of a, free dimensions of b. */
mr_var_t *mr_lax_dot_general(mr_fn_t *f, mr_var_t *a, mr_var_t *b, const mr_dot_dims_t *d,
                             mr_dtype_t out);
mr_var_t *mr_lax_dot(mr_fn_t *f, mr_var_t *a, mr_var_t *b); /* (...,k) x (k,n) -> (...,n) */
/* x (...,K), w (K,N), or (N,K) if transposed; b (N) or NULL -> (...,N) in x's dtype; one dtype.
   Source: flax.nnx.Linear, torch.nn.functional.linear. */
mr_var_t *mr_lax_linear(mr_fn_t *f, mr_var_t *x, mr_var_t *w, mr_var_t *b, bool transposed);

/* ---- composites with fused kernels ---- */
/* x (...,C), scale and bias (C) f32, or f64 as x is -> (...,C) of dtype out.  Statistics in f32
   (see kernels.h). Source: flax.nnx.LayerNorm; two_pass: torch.nn.LayerNorm. */
mr_var_t *mr_lax_layer_norm(mr_fn_t *f, mr_var_t *x, mr_var_t *scale, mr_var_t *bias, float eps,
                            bool two_pass, mr_dtype_t out);
/* x's shape and dtype.  Source: jax.nn.gelu (Hendrycks and Gimpel, 2016), approximate or by erf. */
mr_var_t *mr_lax_gelu(mr_fn_t *f, mr_var_t *x, mr_gelu_t kind);
/* Over the last dimension, of size >= 1; x's shape and dtype.  Source: jax.nn.softmax. */
mr_var_t *mr_lax_softmax(mr_fn_t *f, mr_var_t *x);
/* q, k, v (B,T,H,D) -> (B,T,H,D): softmax(q k' scale) v per image and head.  Source:
   jax.nn.dot_product_attention without mask; by tiles after Dao et al., "FlashAttention" (2022). */
mr_var_t *mr_lax_attention(mr_fn_t *f, mr_var_t *q, mr_var_t *k, mr_var_t *v, float scale);
/* The same with q, k, v side by side in one tensor (B,T,3,H,D): no copies around it. */
mr_var_t *mr_lax_attention_packed(mr_fn_t *f, mr_var_t *qkv, float scale);
/* logits (B,C) f32 or f64, C >= 1, labels (B) i32 in [0,C) -> (B); smoothing in [0,1).  A label
   that is no class has a one-hot row of zeros; MR_LABEL_NONE (base/label.h) gives a loss of 0.
   Source: optax.softmax_cross_entropy of optax.smooth_labels of jax.nn.one_hot. */
mr_var_t *mr_lax_softmax_cross_entropy(mr_fn_t *f, mr_var_t *logits, mr_var_t *labels,
                                       float smoothing);
/* Zero with probability rate in [0,1), else x/(1-rate).  seed u64[], step u32[]; site tells this
   call from the model's others.  The same three give the same mask.
   Source: flax.nnx.Dropout, with masks by Philox4x32-10 (Salmon et al., 2011; kernels.h). */
mr_var_t *mr_lax_dropout(mr_fn_t *f, mr_var_t *x, float rate, uint32_t site, mr_var_t *seed,
                         mr_var_t *step);

typedef struct mr_adamw_config {
  float b1, b2, eps, weight_decay;
  float clip_norm; /* gradients are scaled to at most this global norm; 0: as they are */
} mr_adamw_config_t;
/* p, g, m, v of one shape, f32, bf16 or f64; lr, t (the step's number, from 1), grad_scale f32[].
   out: the new p, m, v.  optax.adamw's arithmetic: f32 by one kernel (kernels.h mr_adamw), others
   by ops, rounded after each. */
mr_err_t mr_lax_adamw(mr_fn_t *f, const mr_adamw_config_t *c, mr_var_t *const in[4], mr_var_t *lr,
                      mr_var_t *t, mr_var_t *grad_scale, mr_var_t *out[3]);

#define MR_OP(name) extern const mr_op_def_t mr_op_##name;
#include "model/ops/list.def"
#undef MR_OP

MR_END_DECLS

#endif
