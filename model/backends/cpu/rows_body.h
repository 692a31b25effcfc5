/* The row and element kernels, once: rows_plain.c, rows_avx2.c and rows_avx512.c compile this
   text for their instruction set.  ROWS names the table it fills. */
#include "model/backends/cpu/rows.h"
#include "model/backends/cpu/vec_math.h"

#define INLINE static inline __attribute__((always_inline))

/* A loop for each dtype, with the dtype a constant inside it. */
#define FOR_DTYPE(t, call)          \
  do {                              \
    if ((t) == MR_F32) {            \
      const mr_dtype_t T = MR_F32;  \
      call;                         \
    } else {                        \
      const mr_dtype_t T = MR_BF16; \
      call;                         \
    }                               \
  } while (0)

/* ---- layer norm ---- */

INLINE void norm_row(mr_dtype_t xt, const void *x, const float *scale, const float *bias, float eps,
                     bool two_pass, mr_dtype_t yt, void *y, float *mean, float *rstd, int64_t c) {
  float sum = 0, sq = 0;
#pragma omp simd reduction(+ : sum, sq)
  for (int64_t j = 0; j < c; j++) {
    float v = vec_load(xt, x, j);
    sum += v;
    sq += v * v;
  }
  float mu = sum / (float)c, var = sq / (float)c - mu * mu;
  if (two_pass) {
    sq = 0;
#pragma omp simd reduction(+ : sq)
    for (int64_t j = 0; j < c; j++) {
      float d = vec_load(xt, x, j) - mu;
      sq += d * d;
    }
    var = sq / (float)c;
  }
  float rs = 1 / sqrtf((var > 0 ? var : 0) + eps);
#pragma omp simd
  for (int64_t j = 0; j < c; j++)
    vec_store(yt, y, j, (vec_load(xt, x, j) - mu) * (rs * scale[j]) + bias[j]);
  *mean = mu, *rstd = rs;
}

INLINE const void *row_of(mr_dtype_t t, const void *x, int64_t at) {
  return t == MR_F32 ? (const void *)((const float *)x + at)
                     : (const void *)((const mr_bf16_t *)x + at);
}

static void layer_norm_fwd(mr_dtype_t xt, const void *x, const float *scale, const float *bias,
                           float eps, bool two_pass, mr_dtype_t yt, void *y, float *mean,
                           float *rstd, int64_t r0, int64_t r1, int64_t c) {
  for (int64_t r = r0; r < r1; r++) {
    float mu, rs;
    const void *row = row_of(xt, x, r * c);
    void *to = (void *)row_of(yt, y, r * c);
    if (yt == MR_F32)
      FOR_DTYPE(xt, norm_row(T, row, scale, bias, eps, two_pass, MR_F32, to, &mu, &rs, c));
    else
      FOR_DTYPE(xt, norm_row(T, row, scale, bias, eps, two_pass, MR_BF16, to, &mu, &rs, c));
    if (mean) mean[r] = mu, rstd[r] = rs;
  }
}

INLINE void norm_row_bwd(mr_dtype_t xt, const void *x, const float *scale, float mu, float rs,
                         mr_dtype_t dyt, const void *dy, void *dx, float *dscale, float *dbias,
                         int64_t c) {
  float s1 = 0, s2 = 0;
#pragma omp simd reduction(+ : s1, s2)
  for (int64_t j = 0; j < c; j++) {
    float h = (vec_load(xt, x, j) - mu) * rs, d = vec_load(dyt, dy, j);
    dscale[j] += d * h;
    dbias[j] += d;
    s1 += d * scale[j];
    s2 += d * scale[j] * h;
  }
  s1 /= (float)c, s2 /= (float)c;
#pragma omp simd
  for (int64_t j = 0; j < c; j++) {
    float h = (vec_load(xt, x, j) - mu) * rs;
    vec_store(xt, dx, j, rs * (vec_load(dyt, dy, j) * scale[j] - s1 - h * s2));
  }
}

static void layer_norm_bwd(mr_dtype_t xt, const void *x, const float *scale, const float *mean,
                           const float *rstd, mr_dtype_t dyt, const void *dy, void *dx,
                           float *dscale, float *dbias, int64_t r0, int64_t r1, int64_t c) {
  memset(dscale, 0, (size_t)c * sizeof *dscale);
  memset(dbias, 0, (size_t)c * sizeof *dbias);
  for (int64_t r = r0; r < r1; r++) {
    const void *row = row_of(xt, x, r * c), *d = row_of(dyt, dy, r * c);
    void *to = (void *)row_of(xt, dx, r * c);
    if (dyt == MR_F32)
      FOR_DTYPE(xt, norm_row_bwd(T, row, scale, mean[r], rstd[r], MR_F32, d, to, dscale, dbias, c));
    else
      FOR_DTYPE(xt,
                norm_row_bwd(T, row, scale, mean[r], rstd[r], MR_BF16, d, to, dscale, dbias, c));
  }
}

static void col_sum(mr_dtype_t xt, const void *x, float *sum, int64_t r0, int64_t r1, int64_t c) {
  memset(sum, 0, (size_t)c * sizeof *sum);
  for (int64_t r = r0; r < r1; r++) {
    const void *row = row_of(xt, x, r * c);
    FOR_DTYPE(
        xt, { _Pragma("omp simd") for (int64_t j = 0; j < c; j++) sum[j] += vec_load(T, row, j); });
  }
}

/* ---- gelu ---- */

#define GELU_A 0.7978845608028654f /* sqrt(2/pi) */
#define GELU_B 0.044715f

/* 0.5 (1 + tanh u) is the logistic function of 2u, which loses nothing for large negative u. */
INLINE float gelu_tanh(float x) {
  float u = GELU_A * (x + GELU_B * x * x * x);
  return x / (1 + vec_exp(-2 * u));
}

INLINE float gelu_tanh_slope(float x) {
  float u = GELU_A * (x + GELU_B * x * x * x);
  float s = 1 / (1 + vec_exp(-2 * u));
  return s + x * s * (1 - s) * 2 * GELU_A * (1 + 3 * GELU_B * x * x);
}

INLINE float gelu_erf(float x) { return 0.5f * x * vec_erfc(-x * (float)M_SQRT1_2); }

INLINE float gelu_erf_slope(float x) {
  return 0.5f * vec_erfc(-x * (float)M_SQRT1_2) + x * 0.3989422804014327f * vec_exp(-0.5f * x * x);
}

INLINE void gelu_fwd_loop(mr_gelu_t kind, mr_dtype_t t, const void *x, void *y, int64_t i0,
                          int64_t i1) {
#pragma omp simd
  for (int64_t i = i0; i < i1; i++) {
    float v = vec_load(t, x, i);
    vec_store(t, y, i, kind == MR_GELU_TANH ? gelu_tanh(v) : gelu_erf(v));
  }
}

static void gelu_fwd(mr_gelu_t kind, mr_dtype_t t, const void *x, void *y, int64_t i0, int64_t i1) {
  if (kind == MR_GELU_TANH)
    FOR_DTYPE(t, gelu_fwd_loop(MR_GELU_TANH, T, x, y, i0, i1));
  else
    FOR_DTYPE(t, gelu_fwd_loop(MR_GELU_ERF, T, x, y, i0, i1));
}

INLINE void gelu_bwd_loop(mr_gelu_t kind, mr_dtype_t t, const void *x, const void *dy, void *dx,
                          int64_t i0, int64_t i1) {
#pragma omp simd
  for (int64_t i = i0; i < i1; i++) {
    float v = vec_load(t, x, i);
    float slope = kind == MR_GELU_TANH ? gelu_tanh_slope(v) : gelu_erf_slope(v);
    vec_store(t, dx, i, vec_load(t, dy, i) * slope);
  }
}

static void gelu_bwd(mr_gelu_t kind, mr_dtype_t t, const void *x, const void *dy, void *dx,
                     int64_t i0, int64_t i1) {
  if (kind == MR_GELU_TANH)
    FOR_DTYPE(t, gelu_bwd_loop(MR_GELU_TANH, T, x, dy, dx, i0, i1));
  else
    FOR_DTYPE(t, gelu_bwd_loop(MR_GELU_ERF, T, x, dy, dx, i0, i1));
}

/* ---- dropout ---- */

enum { LANES = 16, GROUP = 8 * LANES }; /* counters at once; elements they decide */

/* The 16-bit draws of elements [8 block, 8 block + GROUP): Philox4x32-10 of 16 counters side by
   side. */
INLINE void draw_group(uint64_t block, uint64_t seed, uint32_t site, uint32_t step,
                       uint16_t out[GROUP]) {
  uint32_t c0[LANES], c1[LANES], c2[LANES], c3[LANES];
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  for (int l = 0; l < LANES; l++) {
    c0[l] = (uint32_t)(block + (uint64_t)l), c1[l] = (uint32_t)((block + (uint64_t)l) >> 32);
    c2[l] = site, c3[l] = step;
  }
  for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
#pragma omp simd
    for (int l = 0; l < LANES; l++) {
      uint64_t p = (uint64_t)0xD2511F53u * c0[l], q = (uint64_t)0xCD9E8D57u * c2[l];
      c0[l] = (uint32_t)(q >> 32) ^ c1[l] ^ k0, c1[l] = (uint32_t)q;
      c2[l] = (uint32_t)(p >> 32) ^ c3[l] ^ k1, c3[l] = (uint32_t)p;
    }
  }
  for (int l = 0; l < LANES; l++) {
    uint32_t words[4] = {c0[l], c1[l], c2[l], c3[l]};
    memcpy(out + 8 * l, words, sizeof words);
  }
}

INLINE void dropout_loop(mr_dtype_t t, const void *x, void *y, const uint16_t *draw, int n,
                         int64_t at, int limit, float scale) {
#pragma omp simd
  for (int i = 0; i < n; i++)
    vec_store(t, y, at + i, draw[i] >= limit ? vec_load(t, x, at + i) * scale : 0.0f);
}

static void dropout(mr_dtype_t t, const void *x, void *y, int64_t i0, int64_t i1, float rate,
                    uint64_t seed, uint32_t site, uint32_t step) {
  int limit = (int)lrintf(rate * 65536);
  float scale = 1 / (1 - rate);
  for (int64_t i = i0; i < i1; i += GROUP) {
    uint16_t draw[GROUP];
    int n = (int)(i1 - i < GROUP ? i1 - i : GROUP);
    draw_group((uint64_t)i / 8, seed, site, step, draw);
    FOR_DTYPE(t, dropout_loop(T, x, y, draw, n, i, limit, scale));
  }
}

/* ---- elements ---- */

INLINE void convert_loop(mr_dtype_t from, const void *x, mr_dtype_t to, void *y, int64_t i0,
                         int64_t i1) {
#pragma omp simd
  for (int64_t i = i0; i < i1; i++) vec_store(to, y, i, vec_load(from, x, i));
}

static void convert(mr_dtype_t from, const void *x, mr_dtype_t to, void *y, int64_t i0,
                    int64_t i1) {
  if (to == MR_F32)
    FOR_DTYPE(from, convert_loop(T, x, MR_F32, y, i0, i1));
  else
    FOR_DTYPE(from, convert_loop(T, x, MR_BF16, y, i0, i1));
}

INLINE void add_loop(mr_dtype_t at, const void *a, mr_dtype_t bt, const void *b, mr_dtype_t ot,
                     void *out, int64_t i0, int64_t i1) {
#pragma omp simd
  for (int64_t i = i0; i < i1; i++) vec_store(ot, out, i, vec_load(at, a, i) + vec_load(bt, b, i));
}

INLINE void add_to(mr_dtype_t at, const void *a, mr_dtype_t bt, const void *b, mr_dtype_t ot,
                   void *out, int64_t i0, int64_t i1) {
  if (at == MR_F32)
    FOR_DTYPE(bt, add_loop(MR_F32, a, T, b, ot, out, i0, i1));
  else
    FOR_DTYPE(bt, add_loop(MR_BF16, a, T, b, ot, out, i0, i1));
}

static void add(mr_dtype_t at, const void *a, mr_dtype_t bt, const void *b, mr_dtype_t ot,
                void *out, int64_t i0, int64_t i1) {
  FOR_DTYPE(ot, add_to(at, a, bt, b, T, out, i0, i1));
}

static void adamw(const mr_adamw_step_t *s, const float *p, const float *g, const float *m,
                  const float *v, float *p_out, float *m_out, float *v_out, int64_t i0,
                  int64_t i1) {
  const mr_adamw_step_t k = *s;
#pragma omp simd
  for (int64_t i = i0; i < i1; i++) {
    float gi = g[i] * k.grad_scale, pi = p[i];
    float mi = k.b1 * m[i] + (1 - k.b1) * gi, vi = k.b2 * v[i] + (1 - k.b2) * gi * gi;
    m_out[i] = mi, v_out[i] = vi;
    p_out[i] = pi - k.lr * (mi / k.bias1 / (sqrtf(vi / k.bias2) + k.eps) + k.weight_decay * pi);
  }
}

static double sum_squares(const float *x, int64_t i0, int64_t i1) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = i0; i < i1; i++) sum += (double)x[i] * (double)x[i];
  return sum;
}

const mr__rows_t ROWS = {
    .layer_norm_fwd = layer_norm_fwd,
    .layer_norm_bwd = layer_norm_bwd,
    .col_sum = col_sum,
    .gelu_fwd = gelu_fwd,
    .gelu_bwd = gelu_bwd,
    .dropout = dropout,
    .convert = convert,
    .add = add,
    .adamw = adamw,
    .sum_squares = sum_squares,
};
