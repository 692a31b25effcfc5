/* What random programs (random_program.h) are made of: values with a bound of their magnitude, and
   equations drawn over them, of all ops but those that call functions. */
#ifndef MR_TESTS_MODEL_RANDOM_OPS_H
#define MR_TESTS_MODEL_RANDOM_OPS_H

#include "tests/model/made.h"

enum { MAKER_VALUES = 160 };

/* A value and a bound of its magnitude, which holds where the program is tame. */
typedef struct made {
  mr_var_t *v;
  double mag;
} made_t;

typedef struct maker {
  mr_fn_t *f;
  made_t at[MAKER_VALUES];
  int n, depth;
  int64_t a, b;  /* sizes of dimensions */
  bool wild;     /* no guards */
  bool whiles;   /* while may be differentiated: the program has forward mode alone */
  bool own_vjps; /* it may have custom_vjp: the program has reverse mode alone */
  bool draws;    /* it may have random ops */
  bool narrow;   /* some values are bf16 */
} maker_t;

static inline uint32_t under(uint32_t n) { return (uint32_t)((uint64_t)grid_random() * n >> 24); }
static inline bool one_in(uint32_t n) { return under(n) == 0; }

static inline void keep_made(maker_t *m, mr_var_t *v, double mag) {
  if (m->f->diag.code < 0) fail_msg("generator: %s", m->f->diag.text);
  if (m->n < MAKER_VALUES) m->at[m->n++] = (made_t){v, mag};
}

static inline made_t pick_made(const maker_t *m) {
  uint32_t late = one_in(2) && m->n > 8 ? (uint32_t)m->n - 8 : 0; /* chains grow long */
  return m->at[late + under((uint32_t)m->n - late)];
}

/* ---- dtypes ---- */

/* Away from the steps of floor, comparisons and integers, on which sums of rounded terms often lie:
   f32 and f64 would fall on different sides. */
static inline made_t off_step(const maker_t *m, made_t x) {
  if (m->wild || !mr_is_float(x.v->aval.dtype)) return x;
  return (made_t){mr_lax_add(m->f, x.v, mr_literal(m->f, x.v->aval.dtype, 0.37)), x.mag + 1};
}

/* Numbers are first brought into a range that the other dtype has too. */
static inline made_t as_dtype(maker_t *m, made_t x, mr_dtype_t t) {
  mr_dtype_t from = x.v->aval.dtype;
  bool whole = !mr_is_float(from) && from != MR_BOOL && from != MR_U8;
  if (from == t) return x;
  if (mr_is_float(t) && whole) x.v = mr_lax_convert(m->f, x.v, MR_U8);
  if (mr_is_float(t) && (whole || from == MR_U8)) {
    x.v = mr_lax_scale(m->f, 1.0 / 64, mr_lax_convert(m->f, x.v, MR_F32));
    return (made_t){mr_lax_convert(m->f, x.v, t), 4};
  }
  if (!mr_is_float(t)) x = off_step(m, x);
  return (made_t){mr_lax_convert(m->f, x.v, t), x.mag < 1 ? 1 : x.mag};
}

static inline mr_dtype_t float_dtype(const maker_t *m) {
  return m->narrow && one_in(3) ? MR_BF16 : one_in(16) ? MR_F64 : MR_F32;
}

static inline mr_dtype_t whole_dtype(void) {
  static const mr_dtype_t t[] = {MR_I32, MR_I32, MR_I32, MR_U32, MR_U8, MR_I64};
  return t[under(6)];
}

static inline made_t pick_float(maker_t *m) {
  for (int i = 0; i < 4; i++) {
    made_t x = pick_made(m);
    if (mr_is_float(x.v->aval.dtype)) return x;
  }
  return as_dtype(m, pick_made(m), float_dtype(m));
}

/* A float of magnitude at most `limit`. */
static inline made_t tame(maker_t *m, made_t x, double limit) {
  if (x.mag <= limit || (m->wild && one_in(2))) return x;
  return (made_t){mr_lax_tanh(m->f, x.v), 1};
}

/* A float of at least 1/2. */
static inline made_t positive(maker_t *m, made_t x) {
  if (m->wild && one_in(2)) return x;
  x = tame(m, x, 30);
  x.v = mr_lax_add(m->f, mr_lax_mul(m->f, x.v, x.v), mr_literal(m->f, x.v->aval.dtype, 0.5));
  return (made_t){x.v, x.mag * x.mag + 0.5};
}

/* ---- shapes ---- */

static inline mr_aval_t random_shape(const maker_t *m, mr_dtype_t t) {
  const int64_t a = m->a, b = m->b;
  switch (under(7)) {
    case 0: return mr_aval_scalar(t);
    case 1: return mr_aval_of(t, a);
    case 2: return mr_aval_of(t, b);
    case 3: return mr_aval_of(t, b, a);
    case 4: return mr_aval_of(t, 2, a, b);
    default: return mr_aval_of(t, a, b);
  }
}

static inline mr_var_t *cut_to(mr_fn_t *f, mr_var_t *v, const mr_aval_t *want) {
  int64_t n = elems(v), w = mr_aval_elems(want);
  mr_aval_t full = *want;
  full.dtype = v->aval.dtype;
  if (n == 0 && w > 0) return mr_lax_full(f, &full, 1);
  v = mr_lax_reshape(f, v, 1, &n);
  if (n < w) {
    int64_t times[] = {(w + n - 1) / n, n}, all = times[0] * n;
    v = mr_lax_broadcast_in_dim(f, v, 2, times, (int[]){1});
    v = mr_lax_reshape(f, v, 1, &all);
  }
  if (elems(v) > w) v = mr_lax_slice(f, v, (int64_t[]){0}, &w);
  return mr_lax_reshape(f, v, want->ndim, want->dim);
}

/* x with want's shape. */
static inline mr_var_t *shaped(maker_t *m, mr_var_t *x, const mr_aval_t *want) {
  const mr_aval_t *a = &x->aval;
  int more = want->ndim - a->ndim, at[MR_MAX_NDIM];
  if (mr_aval_same_shape(a, want)) return x;
  bool tail = more >= 0;
  for (int i = 0; i < a->ndim && tail; i++) {
    at[i] = i + more;
    tail = a->dim[i] == want->dim[i + more] || a->dim[i] == 1;
  }
  return tail ? mr_lax_broadcast_in_dim(m->f, x, want->ndim, want->dim, at) : cut_to(m->f, x, want);
}

/* y for an elementwise op beside x: of its dtype and shape, or a scalar, or a constant. */
static inline made_t beside(maker_t *m, made_t x, made_t y) {
  if (one_in(10)) return (made_t){mr_literal(m->f, x.v->aval.dtype, (double)under(4)), 3};
  y = as_dtype(m, y, x.v->aval.dtype);
  if (y.v->aval.ndim && x.v->aval.ndim) y.v = shaped(m, y.v, &x.v->aval);
  return y;
}

/* ---- elementwise ops ---- */

static inline void make_unary(maker_t *m) {
  made_t x = pick_float(m);
  mr_fn_t *f = m->f;
  switch (under(18)) {
    case 0:
      x = tame(m, x, 3);
      keep_made(m, mr_lax_exp(f, x.v), exp(x.mag));
      break;
    case 1:
      x = positive(m, x);
      keep_made(m, mr_lax_log(f, x.v), log(x.mag + 1) + 1);
      break;
    case 2: keep_made(m, mr_lax_tanh(f, x.v), 1); break;
    case 3: keep_made(m, mr_lax_erf(f, x.v), 1); break;
    case 4:
      x = positive(m, x);
      keep_made(m, mr_lax_sqrt(f, x.v), sqrt(x.mag) + 1);
      break;
    case 5:
      x = positive(m, x);
      keep_made(m, mr_lax_rsqrt(f, x.v), 2);
      break;
    case 6:
      x = tame(m, x, 30);
      keep_made(m, mr_lax_sin(f, x.v), 1);
      break;
    case 7:
      x = tame(m, x, 30);
      keep_made(m, mr_lax_cos(f, x.v), 1);
      break;
    case 8:
      x = positive(m, x);
      keep_made(m, mr_lax_log1p(f, x.v), log(x.mag + 1) + 1);
      break;
    case 9:
      x = tame(m, x, 3);
      keep_made(m, mr_lax_expm1(f, x.v), exp(x.mag));
      break;
    case 10: keep_made(m, mr_lax_logistic(f, x.v), 1); break;
    case 11: keep_made(m, mr_lax_abs(f, x.v), x.mag); break;
    case 12: keep_made(m, mr_lax_floor(f, off_step(m, x).v), x.mag + 2); break;
    case 13: keep_made(m, mr_lax_sign(f, off_step(m, x).v), 1); break;
    case 14: keep_made(m, mr_lax_neg(f, x.v), x.mag); break;
    case 15:
      x = tame(m, x, 30);
      keep_made(m, mr_lax_gelu(f, x.v, (mr_gelu_t)under(2)), x.mag);
      break;
    case 16:
      x = tame(m, x, 2);
      keep_made(m, mr_lax_integer_pow(f, x.v, (int)under(8)), pow(x.mag + 1, 7));
      break;
    default:
      x = positive(m, x);
      keep_made(m, mr_lax_integer_pow(f, x.v, -1 - (int)under(3)), 8);
      break;
  }
}

static inline void make_binary(maker_t *m) {
  mr_fn_t *f = m->f;
  made_t x = pick_float(m), y = beside(m, x, pick_made(m));
  if (one_in(2)) {
    made_t t = x;
    x = y, y = t;
  }
  double sum = x.mag + y.mag;
  switch (under(8)) {
    case 0: keep_made(m, mr_lax_add(f, x.v, y.v), sum); break;
    case 1: keep_made(m, mr_lax_sub(f, x.v, y.v), sum); break;
    case 2:
    case 3:
      x = tame(m, x, 50), y = tame(m, y, 50);
      keep_made(m, mr_lax_mul(f, x.v, y.v), x.mag * y.mag);
      break;
    case 4:
      y = positive(m, y);
      keep_made(m, mr_lax_div(f, x.v, y.v), 2 * x.mag);
      break;
    case 5: keep_made(m, mr_lax_max(f, x.v, y.v), sum); break;
    case 6: keep_made(m, mr_lax_min(f, x.v, y.v), sum); break;
    default:
      x = positive(m, tame(m, x, 1)), y = tame(m, y, 3);
      keep_made(m, mr_lax_pow(f, x.v, y.v), 8);
      break;
  }
}

static inline mr_var_t *compared(mr_fn_t *f, mr_var_t *x, mr_var_t *y) {
  switch (under(6)) {
    case 0: return mr_lax_eq(f, x, y);
    case 1: return mr_lax_ne(f, x, y);
    case 2: return mr_lax_lt(f, x, y);
    case 3: return mr_lax_le(f, x, y);
    case 4: return mr_lax_gt(f, x, y);
    default: return mr_lax_ge(f, x, y);
  }
}

static inline void make_compare(maker_t *m) {
  made_t x = pick_made(m);
  keep_made(m, compared(m->f, off_step(m, x).v, beside(m, x, pick_made(m)).v), 1);
}

static inline void make_select(maker_t *m) {
  made_t x = pick_made(m), y = as_dtype(m, pick_made(m), x.v->aval.dtype);
  made_t which = as_dtype(m, pick_made(m), MR_BOOL);
  y.v = shaped(m, y.v, &x.v->aval);
  if (which.v->aval.ndim) which.v = shaped(m, which.v, &x.v->aval);
  keep_made(m, mr_lax_select_n(m->f, which.v, x.v, y.v), x.mag + y.mag);
}

static inline void make_whole(maker_t *m) {
  mr_dtype_t t = whole_dtype();
  made_t x = as_dtype(m, pick_made(m), t), y = beside(m, x, pick_made(m));
  bool sign = t == MR_I32 || t == MR_I64;
  mr_var_t *v;
  switch (under(sign ? 8 : 7)) {
    case 0: v = mr_lax_add(m->f, x.v, y.v); break;
    case 1: v = mr_lax_sub(m->f, x.v, y.v); break;
    case 2: v = mr_lax_mul(m->f, x.v, y.v); break;
    case 3: v = mr_lax_max(m->f, x.v, y.v); break;
    case 4: v = mr_lax_min(m->f, x.v, y.v); break;
    case 5: v = mr_lax_integer_pow(m->f, x.v, (int)under(5)); break;
    case 6: v = mr_lax_sign(m->f, x.v); break;
    default: v = one_in(2) ? mr_lax_abs(m->f, x.v) : mr_lax_neg(m->f, x.v); break;
  }
  keep_made(m, v, 1e9);
}

static inline void make_convert(maker_t *m) {
  made_t x = pick_made(m);
  mr_dtype_t t = one_in(2) ? float_dtype(m) : one_in(3) ? MR_BOOL : whole_dtype();
  if (mr_is_float(x.v->aval.dtype)) x = tame(m, x, 100);
  x = as_dtype(m, x, t);
  keep_made(m, x.v, x.mag);
}

/* ---- shapes ---- */

static inline void make_move(maker_t *m) {
  mr_fn_t *f = m->f;
  made_t x = pick_made(m);
  const mr_aval_t *a = &x.v->aval;
  int perm[MR_MAX_NDIM], ndim = a->ndim, n = 0, dims[MR_MAX_NDIM];
  int64_t lo[MR_MAX_NDIM], hi[MR_MAX_NDIM], size = elems(x.v);
  for (int i = 0; i < ndim; i++) {
    perm[i] = ndim - 1 - i;
    if (one_in(2)) dims[n++] = i;
    lo[i] = under(2), hi[i] = a->dim[i] - (a->dim[i] > lo[i] + 1 && one_in(2));
    if (lo[i] > hi[i]) lo[i] = hi[i];
  }
  mr_aval_t other = random_shape(m, a->dtype);
  switch (under(8)) {
    case 0: x.v = mr_lax_transpose(f, x.v, perm); break;
    case 1: x.v = mr_lax_rev(f, x.v, n, dims); break;
    case 2: x.v = mr_lax_slice(f, x.v, lo, hi); break;
    case 3: x.v = mr_lax_pad(f, x.v, lo, (int64_t[MR_MAX_NDIM]){1, 0, 1}); break;
    case 4: x.v = shaped(m, x.v, &other); break;
    case 5: x.v = mr_lax_reshape(f, x.v, 1, &size); break;
    case 6: x.v = mr_lax_optimization_barrier(f, x.v); break;
    default:
      x.v = one_in(2)
                ? mr_lax_stop_gradient(f, x.v)
                : mr_lax_squeeze(f, mr_lax_reshape(f, x.v, 2, (int64_t[]){1, size}), 1, (int[]){0});
      break;
  }
  if (elems(x.v) <= 200) keep_made(m, x.v, x.mag);
}

static inline void make_concatenate(maker_t *m) {
  made_t x = pick_made(m), y = as_dtype(m, pick_made(m), x.v->aval.dtype);
  if (!x.v->aval.ndim || elems(x.v) > 60) return;
  y.v = shaped(m, y.v, &x.v->aval);
  keep_made(
      m,
      mr_lax_concatenate(m->f, 2, (mr_var_t *[]){x.v, y.v}, (int)under((uint32_t)x.v->aval.ndim)),
      x.mag + y.mag);
}

static inline void make_from_nothing(maker_t *m) {
  bool whole = one_in(2);
  mr_aval_t a = random_shape(m, whole ? whole_dtype() : float_dtype(m));
  if (a.ndim && one_in(2))
    keep_made(m, mr_lax_iota(m->f, a.dtype, a.ndim, a.dim, (int)under((uint32_t)a.ndim)), 10);
  else
    keep_made(m, mr_lax_full(m->f, &a, whole ? under(5) : random_in(-2, 2)), 5);
}

/* ---- sums and products ---- */

static inline void make_reduce(maker_t *m) {
  made_t x = tame(m, pick_float(m), 100);
  int n = 0, axes[MR_MAX_NDIM], ndim = x.v->aval.ndim;
  if (one_in(6)) x = as_dtype(m, x, MR_I32);
  for (int i = 0; i < ndim; i++)
    if (one_in(2)) axes[n++] = i;
  double count = (double)elems(x.v) + 1;
  bool whole = !mr_is_float(x.v->aval.dtype);
  switch (under(5)) {
    case 0:
    case 1: keep_made(m, mr_lax_reduce_sum(m->f, x.v, n, axes), count * x.mag); break;
    case 2: keep_made(m, mr_lax_reduce_max(m->f, x.v, n, axes), m->a ? x.mag : 1e9); break;
    case 3:
      if (ndim)
        keep_made(m, mr_lax_cumsum(m->f, x.v, (int)under((uint32_t)ndim), one_in(2)),
                  count * x.mag);
      break;
    default:
      x = whole ? as_dtype(m, x, MR_F32) : tame(m, x, 10);
      keep_made(m, mr_lax_sum_squares(m->f, 1, &x.v), x.mag * x.mag * count);
      break;
  }
}

static inline made_t float_of(maker_t *m, mr_dtype_t t, int ndim, const int64_t *dim) {
  mr_aval_t a = mr_aval(t, ndim, dim);
  made_t x = tame(m, as_dtype(m, pick_float(m), t), 10);
  x.v = shaped(m, x.v, &a);
  return x;
}

static inline void make_product(maker_t *m) {
  mr_dtype_t t = m->narrow && one_in(2) ? MR_BF16 : MR_F32;
  int64_t a = m->a, b = m->b, c = 1 + under(4);
  made_t x = float_of(m, t, 2, (int64_t[]){a, b}), w = float_of(m, t, 2, (int64_t[]){b, c});
  double mag = x.mag * w.mag * (double)b + 1;
  if (one_in(3)) {
    keep_made(m, mr_lax_dot(m->f, x.v, w.v), mag);
  } else if (one_in(2)) {
    bool turned = one_in(2);
    if (turned) w.v = mr_lax_transpose(m->f, w.v, (int[]){1, 0});
    made_t bias = float_of(m, t, 1, &c);
    keep_made(m, mr_lax_linear(m->f, x.v, w.v, one_in(3) ? NULL : bias.v, turned), mag + bias.mag);
  } else {
    mr_dot_dims_t d = {
        .n_contract = 1, .n_batch = (int)under(2), .lhs_contract = {1}, .rhs_contract = {1}};
    w = float_of(m, t, 2, (int64_t[]){a, b});
    keep_made(m, mr_lax_dot_general(m->f, x.v, w.v, &d, one_in(2) ? MR_F32 : t), mag);
  }
}

static inline void make_composite(maker_t *m) {
  mr_fn_t *f = m->f;
  int64_t a = m->a, b = m->b;
  mr_dtype_t t = m->narrow && one_in(2) ? MR_BF16 : MR_F32;
  made_t x = float_of(m, t, 2, (int64_t[]){a, b});
  if (a < 1 || b < 1) return;
  switch (under(5)) {
    case 0: {
      made_t scale = float_of(m, MR_F32, 1, &b), bias = float_of(m, MR_F32, 1, &b);
      mr_var_t *y =
          mr_lax_layer_norm(f, x.v, scale.v, bias.v, 1e-2f, one_in(2), one_in(2) ? MR_F32 : t);
      keep_made(m, y, 3 * scale.mag + bias.mag);
      break;
    }
    case 1: keep_made(m, mr_lax_softmax(f, x.v), 1); break;
    case 2: {
      const int64_t dim[] = {1, a, 2, b};
      made_t q = float_of(m, t, 4, dim), k = float_of(m, t, 4, dim), v = float_of(m, t, 4, dim);
      mr_var_t *y = mr_lax_attention(f, q.v, k.v, v.v, 0.5f);
      keep_made(m, mr_lax_reshape_to(f, y, a, 2, b), v.mag);
      break;
    }
    case 3: {
      mr_aval_t labels = mr_aval_of(MR_I32, a);
      mr_var_t *y = shaped(m, as_dtype(m, pick_made(m), MR_I32).v, &labels);
      x = as_dtype(m, x, MR_F32);
      keep_made(m, mr_lax_softmax_cross_entropy(f, x.v, y, one_in(2) ? 0 : 0.1f), 4 * x.mag + 4);
      break;
    }
    default: {
      made_t index = as_dtype(m, pick_made(m), MR_I32);
      if (elems(index.v) <= 12) keep_made(m, mr_lax_take(f, x.v, index.v), x.mag);
      break;
    }
  }
}

static inline void make_draw(maker_t *m) {
  mr_aval_t key = mr_aval_of(MR_U32, 2), a = random_shape(m, MR_F32);
  mr_var_t *k = shaped(m, as_dtype(m, pick_made(m), MR_U32).v, &key);
  switch (m->draws ? under(5) : 9) {
    case 0: keep_made(m, mr_lax_random_uniform(m->f, k, -1, 1, a.ndim, a.dim), 1); break;
    case 1: keep_made(m, mr_lax_random_normal(m->f, k, a.ndim, a.dim), 5); break;
    case 2: keep_made(m, mr_lax_random_bits(m->f, k, a.ndim, a.dim), 1e9); break;
    case 3: keep_made(m, mr_lax_random_split(m->f, k, 3), 1e9); break;
    case 4: keep_made(m, mr_lax_random_randint(m->f, k, -3, 9, a.ndim, a.dim), 9); break;
    default: break;
  }
}

#endif
