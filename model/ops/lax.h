/* One function for each op: it appends the op to a graph under construction and returns its value.

   Results belong to f and live as long as f.  Every function returns NULL on failure: f then holds
   the sentence, which names op, scope and avals, with MR_ERR_SHAPE for shapes, dtypes, axes or
   settings that do not fit and MR_ERR_NOMEM without memory.  A failed f and a NULL operand give
   NULL too, so that calls can be nested and f->diag checked once.  dtypes are f32, bf16, f16 or f64
   (for the oracle) and sizes may be 0 unless a line says otherwise.  One thread at a time for one
   f; nothing blocks.

   Each function's .c is that of its op or of the op's family.  Source: mr_lax_NAME is jax.lax.NAME
   (jax 0.10), with its results at kinks, NaN and overflow, unless its line names another. */
#ifndef MR_MODEL_OPS_LAX_H
#define MR_MODEL_OPS_LAX_H

#include "base/decls.h"
#include "model/ir/fn.h"
#include "model/ir/op.h"
#include "model/ops/operands.h"

MR_BEGIN_DECLS

/* ---- elementwise, mr_lax_NAME(f, x) or mr_lax_NAME(f, a, b) for each MR_OP1 and MR_OP2 of
   list.def: operands of one dtype and one shape, or one of them a scalar, which is repeated; the
   result has that shape.  Each returns a var owned by f, NULL on failure.
   Arithmetic, comparisons, sign, abs, neg, max and min also take integers, which wrap; max, min and
   comparisons also bool; abs no unsigned dtype.
   add_any: of two cotangents.  div: of integers, -1 where b is 0.  max, min: NaN if one is NaN.
   eq, ne, lt, le, gt, ge: bool.  sign: -1, 0 or 1; NaN stays.  abs: slope 1 at 0.
   erf: bf16, f16 and f32 computed in f32.
   stop_gradient: x of any dtype, constant to derivatives.  Source: jax.lax.stop_gradient.
   optimization_barrier: x, which passes take for another value: nothing computed from the result is
   merged with what is computed from x ---- */
#define MR_OP(name)
#define MR_OP1(name) mr_var_t *mr_lax_##name(mr_fn_t *f, mr_var_t *x);
#define MR_OP2(name) mr_var_t *mr_lax_##name(mr_fn_t *f, mr_var_t *a, mr_var_t *b);
#include "model/ops/list.def"
#undef MR_OP

/* ---- elementwise, of their own kind; each returns a var owned by f, NULL on failure.
   select_n: a where which is false, b where it is true; which is bool, a scalar or of the shape of
   a and b, which may have any dtype.
   integer_pow: x^y, for integers with y >= 0; x^0 is 1.
   scale: s x, s rounded to x's dtype.
   convert: convert_element_type, between f32, bf16, f16, f64, i32, u32 and bool; returns x itself
   if it has the dtype already.  Floats are truncated to integers; true is any x but 0. ---- */
mr_var_t *mr_lax_select_n(mr_fn_t *f, mr_var_t *which, mr_var_t *a, mr_var_t *b);
mr_var_t *mr_lax_integer_pow(mr_fn_t *f, mr_var_t *x, int y);
mr_var_t *mr_lax_scale(mr_fn_t *f, double s, mr_var_t *x);
mr_var_t *mr_lax_convert(mr_fn_t *f, mr_var_t *x, mr_dtype_t to);

/* ---- draws by key.  key is u32[2], as jax.random's, or u32[...,2]: many keys, each of which draws
   dim[ndim]; the result has the keys' leading dimensions, then dim.  Values are those of
   base/random.h, in f's layout (fn.h mr_key_layout_enter).  Each returns a var owned by f; NULL,
   with MR_ERR_SHAPE, for a key of another dtype or shape, a negative size or more than MR_MAX_NDIM
   dimensions.  Source: jax.random.NAME (jax 0.10).
   bits: u32, 32 uniform bits each.
   uniform: f32 in [lo,hi).
   normal: f32, standard normals.
   truncated_normal: f32, standard normals within (lo,hi), either of which may be infinite; lo < hi.
   randint: i32 in [lo,hi); lo if hi <= lo.
   permutation: i32[n], 0..n-1 shuffled, 0 <= n < 2^31.
   bernoulli: bool, true with probability p.
   split: u32[n,2], n >= 0 new keys.
   fold_in: a new key of key's shape; data is u32[], or one number for each key.
   dropout_by_key: x's shape and dtype, x / (1 - rate) with probability 1 - rate, else 0; rate in
   [0,1], one key u32[2].  Source: flax.nnx.Dropout, draws included ---- */
mr_var_t *mr_lax_random_bits(mr_fn_t *f, mr_var_t *key, int ndim, const int64_t *dim);
mr_var_t *mr_lax_random_uniform(mr_fn_t *f, mr_var_t *key, float lo, float hi, int ndim,
                                const int64_t *dim);
mr_var_t *mr_lax_random_normal(mr_fn_t *f, mr_var_t *key, int ndim, const int64_t *dim);
mr_var_t *mr_lax_random_truncated_normal(mr_fn_t *f, mr_var_t *key, float lo, float hi, int ndim,
                                         const int64_t *dim);
mr_var_t *mr_lax_random_randint(mr_fn_t *f, mr_var_t *key, int32_t lo, int32_t hi, int ndim,
                                const int64_t *dim);
mr_var_t *mr_lax_random_permutation(mr_fn_t *f, mr_var_t *key, int64_t n);
mr_var_t *mr_lax_random_bernoulli(mr_fn_t *f, mr_var_t *key, float p, int ndim, const int64_t *dim);
mr_var_t *mr_lax_random_split(mr_fn_t *f, mr_var_t *key, int64_t n);
mr_var_t *mr_lax_random_fold_in(mr_fn_t *f, mr_var_t *key, mr_var_t *data);
mr_var_t *mr_lax_dropout_by_key(mr_fn_t *f, mr_var_t *x, float rate, mr_var_t *key);

/* ---- constants; each returns a var owned by f, NULL on failure.
   full: like's dtype and shape, every element value, rounded to the dtype.
   iota: dim[ndim] of any dtype but bool, counting 0, 1, 2, ... along one dimension.
   eye: (n,n).  Source: jax.numpy.eye ---- */
mr_var_t *mr_lax_full(mr_fn_t *f, const mr_aval_t *like, double value);
mr_var_t *mr_lax_iota(mr_fn_t *f, mr_dtype_t dtype, int ndim, const int64_t *dim, int dimension);
mr_var_t *mr_lax_eye(mr_fn_t *f, mr_dtype_t dtype, int64_t n);

/* ---- shapes; any dtype, at most MR_MAX_NDIM dimensions; arrays are copied.  Each returns a var
   owned by f, NULL on failure.
   reshape: the same elements in the same row-major order; dim's product must be their number.
   squeeze: x without the n dimensions dims, which must have size 1.
   transpose: dimension i of the result is dimension perm[i] of x; perm is a permutation.
   broadcast_in_dim: x's dimension i becomes dimension at[i] of the result dim[ndim], at ascending;
   x's size there must be the result's, or 1.
   slice: x[start:limit] in each dimension, 0 <= start <= limit <= its size.
   pad: low and high zeros, counts >= 0, around each dimension.
   concatenate: n >= 1 values of one dtype whose sizes differ along that dimension alone.
   rev: x reversed along n different dimensions.
   take: rows of x (N,...) by index i32 (any shape) -> (index's shape, x's other dimensions).  An
   index outside [0,N) takes the nearest row.  In derivatives the cotangents of one row are added in
   the order of index ---- */
mr_var_t *mr_lax_reshape(mr_fn_t *f, mr_var_t *x, int ndim, const int64_t *dim);
#define mr_lax_reshape_to(f, x, ...) mr_lax_reshape(f, x, MR_DIMS(__VA_ARGS__))
/* squeeze to take, as described above: each returns a var owned by f, NULL on failure. */
mr_var_t *mr_lax_squeeze(mr_fn_t *f, mr_var_t *x, int n, const int *dims);
mr_var_t *mr_lax_transpose(mr_fn_t *f, mr_var_t *x, const int *perm);
mr_var_t *mr_lax_broadcast_in_dim(mr_fn_t *f, mr_var_t *x, int ndim, const int64_t *dim,
                                  const int *at);
mr_var_t *mr_lax_slice(mr_fn_t *f, mr_var_t *x, const int64_t *start, const int64_t *limit);
mr_var_t *mr_lax_pad(mr_fn_t *f, mr_var_t *x, const int64_t *low, const int64_t *high);
mr_var_t *mr_lax_concatenate(mr_fn_t *f, int n, mr_var_t *const *x, int dimension);
mr_var_t *mr_lax_rev(mr_fn_t *f, mr_var_t *x, int n, const int *dims);
mr_var_t *mr_lax_take(mr_fn_t *f, mr_var_t *x, mr_var_t *index);

/* ---- reductions: f32, bf16 and f16 are summed in f32 and rounded once; sums of integers wrap.
   Each returns a var owned by f, NULL on failure.
   cumsum: x's shape, the sums up to each element along axis, from the end if reverse.
   reduce_sum, reduce_max: without the n different axes.  An empty sum is 0, an empty maximum -inf
   or the least integer.
   sum_squares: n >= 0 tensors of f32, bf16 or f16 -> f32[], the squares of all elements, summed in
   f64; f64[] if one of them is f64.  Source: optax.global_norm
   sum_squares_pair: the same -> f32[2] or f64[2]: that sum, and the sum of the squares of
   2^-MR_SQUARES_SHIFT times each element, which is finite if all elements are ---- */
mr_var_t *mr_lax_cumsum(mr_fn_t *f, mr_var_t *x, int axis, bool reverse);
mr_var_t *mr_lax_reduce_sum(mr_fn_t *f, mr_var_t *x, int n, const int *axes);
mr_var_t *mr_lax_reduce_max(mr_fn_t *f, mr_var_t *x, int n, const int *axes);
enum { MR_SQUARES_SHIFT = 80 };
mr_var_t *mr_lax_sum_squares(mr_fn_t *f, int n, mr_var_t *const *x);
mr_var_t *mr_lax_sum_squares_pair(mr_fn_t *f, int n, mr_var_t *const *x);
/* The sum of the squares of x, of f32, bf16 or f16, in f64[]: sums of several, added in their order
   and rounded to f32, have the bits of mr_lax_sum_squares of all.  A var owned by f, or NULL. */
mr_var_t *mr_lax_sum_squares_wide(mr_fn_t *f, mr_var_t *x);

/* ---- products of two values of one dtype: accumulated in f32 (f64 in f64), rounded once to `out`;
   f32 at f's precision (fn.h mr_precision_enter).  Each returns a var owned by f, NULL on failure.
   dot_general: d pairs dimensions of a and b, which must have equal sizes.  Result: batch
   dimensions, free dimensions of a, free dimensions of b.
   dot: (...,k) x (k,n) -> (...,n) in a's dtype.
   linear: x (...,K), w (K,N), or (N,K) if transposed, b (N) or NULL -> (...,N) in x's dtype.
   Source: flax.nnx.Linear, torch.nn.functional.linear ---- */
mr_var_t *mr_lax_dot_general(mr_fn_t *f, mr_var_t *a, mr_var_t *b, const mr_dot_dims_t *d,
                             mr_dtype_t out);
mr_var_t *mr_lax_dot(mr_fn_t *f, mr_var_t *a, mr_var_t *b);
mr_var_t *mr_lax_linear(mr_fn_t *f, mr_var_t *x, mr_var_t *w, mr_var_t *b, bool transposed);

/* ---- composites with fused kernels; each returns a var owned by f, NULL on failure.
   layer_norm: x (...,C), scale and bias (C) f32, or f64 if x is -> (...,C) of dtype out.
   Statistics in f32 (kernels.h).  Source: flax.nnx.LayerNorm; two_pass: torch.nn.LayerNorm.
   gelu: x's shape and dtype, by tanh or by erf.  Source: jax.nn.gelu (Hendrycks and Gimpel, 2016).
   softmax: over the last dimension, of size >= 1; x's shape and dtype.  Source: jax.nn.softmax.
   attention: q, k, v (B,T,H,D) -> (B,T,H,D), softmax(q k' scale) v for each image and head.
   Source: jax.nn.dot_product_attention without mask; in tiles after Dao et al., "FlashAttention"
   (2022).
   attention_is_packed: the same with q, k, v side by side in one tensor (B,T,3,H,D), without
   copies. softmax_cross_entropy: logits (B,C) f32 or f64, C >= 1, labels (B) i32 in [0,C) -> losses
   (B); smoothing in [0,1).  A label outside [0,C) has a one-hot row of zeros; MR_LABEL_NONE
   (base/dataset.h) gives a loss of 0.  Source: optax.softmax_cross_entropy of optax.smooth_labels
   of jax.nn.one_hot. dropout: 0 with probability rate in [0,1), else x / (1 - rate).  seed u64[],
   step u32[]; site distinguishes the dropouts of a model.  Equal seed, step and site give equal
   masks.  Source: flax.nnx.Dropout, with masks by Philox4x32-10 (Salmon et al., 2011; kernels.h)
   ---- */
mr_var_t *mr_lax_layer_norm(mr_fn_t *f, mr_var_t *x, mr_var_t *scale, mr_var_t *bias, float eps,
                            bool two_pass, mr_dtype_t out);
mr_var_t *mr_lax_gelu(mr_fn_t *f, mr_var_t *x, mr_gelu_t kind);
mr_var_t *mr_lax_softmax(mr_fn_t *f, mr_var_t *x);
mr_var_t *mr_lax_attention(mr_fn_t *f, mr_var_t *q, mr_var_t *k, mr_var_t *v, float scale);
mr_var_t *mr_lax_attention_packed(mr_fn_t *f, mr_var_t *qkv, float scale);
mr_var_t *mr_lax_softmax_cross_entropy(mr_fn_t *f, mr_var_t *logits, mr_var_t *labels,
                                       float smoothing);
mr_var_t *mr_lax_dropout(mr_fn_t *f, mr_var_t *x, float rate, uint32_t site, mr_var_t *seed,
                         mr_var_t *step);
/* stochastic_round: f32 x rounded to bf16 or f16, to the neighbour below or above with
   probabilities that make the mean x, drawn by seed u64[], step u32[], site and element; what is
   finite stays so. x of f64 is rounded to f32 first.  Derivatives are those of convert.  A var
   owned by f; NULL on failure.  Source: Croci et al., "Stochastic rounding: implementation, error
   analysis and applications" (2022). */
mr_var_t *mr_lax_stochastic_round(mr_fn_t *f, mr_var_t *x, mr_dtype_t to, uint32_t site,
                                  mr_var_t *seed, mr_var_t *step);
#define MR_DROPOUT_FIRST_MOST ((int64_t)1 << 62)
/* The dropout of a piece of a larger array, whose element `first`, in [0,MR_DROPOUT_FIRST_MOST], is
   x's first: the piece is dropped as the whole would be.  The result belongs to f; NULL on failure,
   MR_ERR_SHAPE for another first. */
mr_var_t *mr_lax_dropout_from(mr_fn_t *f, mr_var_t *x, float rate, uint32_t site, int64_t first,
                              mr_var_t *seed, mr_var_t *step);
int64_t mr_dropout_first(const mr_eqn_t *e); /* returns `first` of a dropout */
/* The dropout of a part of a larger array, of rows * row elements, whose place is a value: x has
   n = elements / run rows of it, those from place[0] n on, which divides rows, and of each row the
   elements from place[1] run on, run of them, which divides row. */
typedef struct mr_dropout_part {
  float rate;
  uint32_t site;
  int64_t first;          /* of the larger array, as above */
  int64_t rows, row, run; /* >= 1 */
} mr_dropout_part_t;
/* The part is dropped as the larger array would be.  place: i32[2], in range.  The result belongs
   to f; NULL on failure, MR_ERR_SHAPE for sizes that do not divide or exceed 2^62 together. */
mr_var_t *mr_lax_dropout_part(mr_fn_t *f, mr_var_t *x, const mr_dropout_part_t *p, mr_var_t *seed,
                              mr_var_t *step, mr_var_t *place);
mr_dropout_part_t mr_dropout_part_of(const mr_eqn_t *e); /* returns those of such an equation */

typedef struct mr_adamw_config {
  float b1, b2, eps, weight_decay;
  float clip_norm; /* gradients are scaled to at most this global norm; 0: as they are */
} mr_adamw_config_t;
/* One AdamW update.  in: p, g, m, v of one shape, f32, bf16, f16 or f64; lr, t (the step's number,
   from 1) and grad_scale are f32[].  out: the new p, m, v, owned by f.  c->clip_norm is not applied
   here: the caller passes its effect as grad_scale.  optax.adamw's arithmetic: f32 in one kernel
   (kernels.h mr_adamw), other dtypes as ops, rounded after each.  Returns MR_OK, or the failure in
   f->diag. */
mr_err_t mr_lax_adamw(mr_fn_t *f, const mr_adamw_config_t *c, mr_var_t *const in[4], mr_var_t *lr,
                      mr_var_t *t, mr_var_t *grad_scale, mr_var_t *out[3]);
/* The same where apply bool[] is true; else out are p, m, v as they came.  apply NULL: true. */
mr_err_t mr_lax_adamw_where(mr_fn_t *f, const mr_adamw_config_t *c, mr_var_t *const in[4],
                            mr_var_t *lr, mr_var_t *t, mr_var_t *grad_scale, mr_var_t *apply,
                            mr_var_t *out[3]);

/* The ops themselves: mr_op_add, ..., static constants. */
#define MR_OP(name) extern const mr_op_def_t mr_op_##name;
#include "model/ops/list.def"
#undef MR_OP

MR_END_DECLS

#endif
