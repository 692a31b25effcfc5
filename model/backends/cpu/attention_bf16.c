/* Attention of one bf16 head by dot products of bf16 pairs (AVX-512-bf16), which do twice the
   work of f32 lanes in one instruction.  Queries are processed a few rows at a time: their scores
   are computed, turned into weights and used before they leave the first-level cache.

   Sums and softmax are f32.  Weights, and in the backward pass the gradients of scores, are
   rounded to bf16 before the product that reads them, as in frameworks that write attention as
   products of bf16.  The instruction treats subnormal operands as 0.  For f32, and for heads of
   an odd width, the kernels of attention_avx512.c run. */
#include "model/backends/cpu/attention_private.h"

#if defined(__x86_64__)
#include <math.h>

#include "model/backends/cpu/attention_pairs.h"

enum {
  ROWS = MR_PAIR_ROWS, /* queries at a time */
  BWD_ROWS = 96,       /* queries whose gradients of scores are held for keys and values */
};

static int64_t attention_bf16_round16(int64_t n) { return (n + 15) & ~(int64_t)15; }
static int64_t attention_bf16_least(int64_t a, int64_t b) { return a < b ? a : b; }

static bool attention_bf16_in_pairs(const mr_attention_spec_t *s) {
  return s->t == MR_BF16 && s->D % 2 == 0;
}

static void *attention_bf16_take(uint32_t **work, int64_t words) {
  void *at = *work;
  *work += words;
  return at;
}

/* ---- rows of scores ---- */

/* e^x for x up to 88: x = n ln 2 + r, a polynomial for e^r (vec_math.h).  A NaN stays one. */
MR_INLINE __m512 exp16(__m512 x) {
  x = _mm512_max_ps(_mm512_set1_ps(-104.0f), x);
  __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)),
                                  _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), r);
  __m512 p = _mm512_set1_ps(1.9875691500e-4f);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.3981999507e-3f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(8.3334519073e-3f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.1665795894e-2f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.6666665459e-1f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.0000001201e-1f));
  p = _mm512_fmadd_ps(_mm512_mul_ps(p, r), r, _mm512_add_ps(r, _mm512_set1_ps(1)));
  return _mm512_scalef_ps(p, n);
}

MR_INLINE __m256i narrow(__m512 x) { return (__m256i)_mm512_cvtneps_pbh(x); }

/* x[T]: the scores, overwritten; p[round16(T)] receives their weights, 0 beyond T.  Returns the
   log of the sum of exponentials. */
static float attention_bf16_softmax_row(float *x, int64_t T, float scale, mr_bf16_t *p) {
  __m512 by = _mm512_set1_ps(scale), top = _mm512_set1_ps(-INFINITY), sum = _mm512_setzero_ps();
  for (int64_t j = 0; j < T; j += 16) {
    __m512 v = _mm512_mul_ps(_mm512_load_ps(x + j), by);
    _mm512_store_ps(x + j, v);
    top = _mm512_mask_max_ps(top, mr__first_lanes(T - j), top, v);
  }
  float most = _mm512_reduce_max_ps(top);
  top = _mm512_set1_ps(most);
  for (int64_t j = 0; j < T; j += 16) {
    __m512 e = exp16(_mm512_sub_ps(_mm512_load_ps(x + j), top));
    e = _mm512_maskz_mov_ps(mr__first_lanes(T - j), e);
    _mm512_store_ps(x + j, e);
    sum = _mm512_add_ps(sum, e);
  }
  float total = _mm512_reduce_add_ps(sum);
  by = _mm512_set1_ps(1 / total);
  for (int64_t j = 0; j < T; j += 16)
    _mm256_store_si256((void *)(p + j), narrow(_mm512_mul_ps(_mm512_load_ps(x + j), by)));
  return most + logf(total);
}

/* x[T]: scores in, weights out; dx[T]: gradients of the weights in, of the scores (times scale)
   out; 0 beyond T. */
static void gradient_row(float *x, float *dx, int64_t T, float scale, float lse) {
  __m512 by = _mm512_set1_ps(scale), less = _mm512_set1_ps(lse), sum = _mm512_setzero_ps();
  for (int64_t j = 0; j < T; j += 16) {
    __m512 p = exp16(_mm512_fmsub_ps(_mm512_load_ps(x + j), by, less));
    p = _mm512_maskz_mov_ps(mr__first_lanes(T - j), p);
    _mm512_store_ps(x + j, p);
    sum = _mm512_fmadd_ps(p, _mm512_load_ps(dx + j), sum);
  }
  __m512 mean = _mm512_set1_ps(_mm512_reduce_add_ps(sum));
  for (int64_t j = 0; j < T; j += 16) {
    __m512 p = _mm512_mul_ps(_mm512_load_ps(x + j), by);
    _mm512_store_ps(dx + j, _mm512_mul_ps(p, _mm512_sub_ps(_mm512_load_ps(dx + j), mean)));
  }
}

/* ---- forward ---- */

static size_t fwd_work(const mr_attention_spec_t *s) {
  if (!attention_bf16_in_pairs(s)) return mr__attention_avx512.fwd_work(s);
  int64_t T = attention_bf16_round16(s->T), D = attention_bf16_round16(s->D);
  return (size_t)(s->D / 2 * T + (s->T + 1) / 2 * D + ROWS * (T + T / 2 + D)) * 4;
}

static void attention_bf16_fwd(const mr_attention_spec_t *s, const mr_attention_head_t *h,
                               void *work) {
  if (!attention_bf16_in_pairs(s)) {
    mr__attention_avx512.fwd(s, h, work);
    return;
  }
  int64_t T = attention_bf16_round16(s->T), D = attention_bf16_round16(s->D);
  uint32_t *at = work, *k = attention_bf16_take(&at, s->D / 2 * T),
           *v = attention_bf16_take(&at, (s->T + 1) / 2 * D);
  float *scores = attention_bf16_take(&at, ROWS * T), *out = attention_bf16_take(&at, ROWS * D);
  mr_bf16_t *p = attention_bf16_take(&at, ROWS * T / 2);
  mr__pairs_turned(h->k, s->k_tok, s->T, s->D, k, T);
  mr__pairs_woven(h->v, s->v_tok, s->T, s->D, v, D);
  for (int64_t i = 0; i < s->T; i += ROWS) {
    int64_t rows = attention_bf16_least(s->T - i, ROWS);
    mr__pair_product_t qk = {
        .m = rows, .n = T, .k = s->D / 2, .a_row = s->q_tok, .a_col = 2, .ldb = T, .ldc = T};
    mr__pair_product_t pv = {
        .m = rows, .n = D, .k = (s->T + 1) / 2, .a_row = T, .a_col = 2, .ldb = D, .ldc = D};
    mr__pair_multiply(&qk, (const mr_bf16_t *)h->q + i * s->q_tok, k, scores);
    for (int64_t r = 0; r < rows; r++) {
      float lse = attention_bf16_softmax_row(scores + r * T, s->T, s->scale, p + r * T);
      if (h->lse) h->lse[i + r] = lse;
    }
    mr__pair_multiply(&pv, p, v, out);
    mr__rows_out(out, D, rows, s->D, (mr_bf16_t *)h->out + i * s->o_tok, s->o_tok);
  }
}

/* ---- backward ---- */

typedef struct tiles {
  int64_t T, D;           /* rounded up */
  uint32_t *k, *v;        /* [D/2][T]: pairs along the width */
  uint32_t *keys;         /* [T/2][D]: pairs of keys */
  uint32_t *q, *dout;     /* [BWD_ROWS/2][D]: pairs of queries */
  uint32_t *p, *ds;       /* [BWD_ROWS/2][T]: pairs of queries */
  float *x, *dx, *dq;     /* [ROWS][T], [ROWS][T], [ROWS][D] */
  mr_bf16_t *ds_rows;     /* [ROWS][T] */
  float *dk_sum, *dv_sum; /* [T][D] */
} tiles_t;

static int64_t block_rows(const mr_attention_spec_t *s) {
  return attention_bf16_least((s->T + 1) & ~(int64_t)1, BWD_ROWS);
}

static size_t bwd_work(const mr_attention_spec_t *s) {
  if (!attention_bf16_in_pairs(s)) return mr__attention_avx512.bwd_work(s);
  int64_t T = attention_bf16_round16(s->T), D = attention_bf16_round16(s->D);
  int64_t keys = s->D * T + (s->T + 1) / 2 * D + 2 * s->T * D;
  return (size_t)(keys + block_rows(s) * (D + T) + ROWS * (2 * T + T / 2 + D)) * 4;
}

static tiles_t attention_bf16_split(const mr_attention_spec_t *s, uint32_t *work) {
  tiles_t x = {.T = attention_bf16_round16(s->T), .D = attention_bf16_round16(s->D)};
  int64_t pairs = block_rows(s) / 2;
  x.k = attention_bf16_take(&work, s->D / 2 * x.T);
  x.v = attention_bf16_take(&work, s->D / 2 * x.T);
  x.keys = attention_bf16_take(&work, (s->T + 1) / 2 * x.D);
  x.q = attention_bf16_take(&work, pairs * x.D);
  x.dout = attention_bf16_take(&work, pairs * x.D);
  x.p = attention_bf16_take(&work, pairs * x.T);
  x.ds = attention_bf16_take(&work, pairs * x.T);
  x.x = attention_bf16_take(&work, ROWS * x.T);
  x.dx = attention_bf16_take(&work, ROWS * x.T);
  x.dq = attention_bf16_take(&work, ROWS * x.D);
  x.ds_rows = attention_bf16_take(&work, ROWS * x.T / 2);
  x.dk_sum = attention_bf16_take(&work, s->T * x.D);
  x.dv_sum = attention_bf16_take(&work, s->T * x.D);
  return x;
}

/* Writes the weights and the gradients of scores of queries r and r + 1 (if there is one) as
   pairs, and those gradients as rows of bf16 too. */
static void pair_rows(const tiles_t *x, int64_t rows, int64_t r, uint32_t *p, uint32_t *ds) {
  int64_t T = x->T;
  __mmask16 both = r + 1 < rows ? 0xFFFF : 0;
  for (int64_t j = 0; j < T; j += 16) {
    int64_t at = r * T + j;
    __m256i first = narrow(_mm512_load_ps(x->x + at));
    __m256i second = narrow(_mm512_maskz_load_ps(both, x->x + at + T));
    _mm512_store_si512(p + j, mr__pairs_of(first, second));
    first = narrow(_mm512_load_ps(x->dx + at));
    second = narrow(_mm512_maskz_load_ps(both, x->dx + at + T));
    _mm512_store_si512(ds + j, mr__pairs_of(first, second));
    _mm256_store_si256((void *)(x->ds_rows + at), first);
    if (both) _mm256_store_si256((void *)(x->ds_rows + at + T), second);
  }
}

/* Processes `rows` queries from i on, which are queries r and following of their block: fills
   x->p and x->ds, and stores their dq. */
static void backward_rows(const mr_attention_spec_t *s, const mr_attention_head_t *h,
                          const tiles_t *x, int64_t i, int64_t r, int64_t rows) {
  int64_t T = x->T, D = x->D;
  mr__pair_product_t scores = {
      .m = rows, .n = T, .k = s->D / 2, .a_row = s->q_tok, .a_col = 2, .ldb = T, .ldc = T};
  mr__pair_product_t weights = scores;
  weights.a_row = s->o_tok;
  mr__pair_product_t to_q = {
      .m = rows, .n = D, .k = (s->T + 1) / 2, .a_row = T, .a_col = 2, .ldb = D, .ldc = D};
  mr__pair_multiply(&scores, (const mr_bf16_t *)h->q + i * s->q_tok, x->k, x->x);
  mr__pair_multiply(&weights, (const mr_bf16_t *)h->dout + i * s->o_tok, x->v, x->dx);
  for (int64_t n = 0; n < rows; n++)
    gradient_row(x->x + n * T, x->dx + n * T, s->T, s->scale, h->lse[i + n]);
  for (int64_t n = 0; n < rows; n += 2)
    pair_rows(x, rows, n, x->p + (r + n) / 2 * T, x->ds + (r + n) / 2 * T);
  mr__pair_multiply(&to_q, x->ds_rows, x->keys, x->dq);
  mr__rows_out(x->dq, D, rows, s->D, (mr_bf16_t *)h->dq + i * s->q_tok, s->q_tok);
}

/* Processes a block of `rows` queries from i on: stores their dq and adds their part to dk and
   dv. */
static void backward_block(const mr_attention_spec_t *s, const mr_attention_head_t *h,
                           const tiles_t *x, int64_t i, int64_t rows) {
  mr__pairs_woven((const mr_bf16_t *)h->q + i * s->q_tok, s->q_tok, rows, s->D, x->q, x->D);
  mr__pairs_woven((const mr_bf16_t *)h->dout + i * s->o_tok, s->o_tok, rows, s->D, x->dout, x->D);
  for (int64_t r = 0; r < rows; r += ROWS)
    backward_rows(s, h, x, i + r, r, attention_bf16_least(rows - r, ROWS));
  mr__pair_product_t to_kv = {.m = s->T,
                              .n = x->D,
                              .k = (rows + 1) / 2,
                              .a_row = 2,
                              .a_col = 2 * x->T,
                              .ldb = x->D,
                              .ldc = x->D,
                              .add = i > 0};
  mr__pair_multiply(&to_kv, (const mr_bf16_t *)x->ds, x->q, x->dk_sum);
  mr__pair_multiply(&to_kv, (const mr_bf16_t *)x->p, x->dout, x->dv_sum);
}

static void attention_bf16_bwd(const mr_attention_spec_t *s, const mr_attention_head_t *h,
                               void *work) {
  if (!attention_bf16_in_pairs(s)) {
    mr__attention_avx512.bwd(s, h, work);
    return;
  }
  tiles_t x = attention_bf16_split(s, work);
  mr__pairs_turned(h->k, s->k_tok, s->T, s->D, x.k, x.T);
  mr__pairs_turned(h->v, s->v_tok, s->T, s->D, x.v, x.T);
  mr__pairs_woven(h->k, s->k_tok, s->T, s->D, x.keys, x.D);
  for (int64_t i = 0; i < s->T; i += BWD_ROWS)
    backward_block(s, h, &x, i, attention_bf16_least(s->T - i, BWD_ROWS));
  mr__rows_out(x.dk_sum, x.D, s->T, s->D, h->dk, s->k_tok);
  mr__rows_out(x.dv_sum, x.D, s->T, s->D, h->dv, s->v_tok);
}

const mr__attention_t mr__attention_bf16 = {.fwd_work = fwd_work,
                                            .bwd_work = bwd_work,
                                            .fwd = attention_bf16_fwd,
                                            .bwd = attention_bf16_bwd,
                                            .by_pairs = attention_bf16_in_pairs};
#else
typedef int mr__no_attention_bf16; /* this machine has no such instructions */
#endif
