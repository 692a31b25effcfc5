/* A head is read once into f32 tiles of a thread's own caches; scores never leave them. */
#include <math.h>

#include "model/backends/cpu/attention_private.h"
#include "model/backends/cpu/tile_avx512.h"

enum {
  FWD_ROWS = 32, /* queries whose scores are held at a time */
  BWD_ROWS = 96,
};

static int64_t round16(int64_t n) { return (n + 15) & ~(int64_t)15; }

#if defined(__x86_64__)

static float *take(float **work, int64_t floats) {
  float *at = *work;
  *work += floats;
  return at;
}

/* x[T] becomes the weights of its row; the log of the sum of exponents. */
MR_AVX512 static float softmax_row(mr_dtype_t t, float *x, int64_t T, float scale) {
  __m512 top = _mm512_set1_ps(-INFINITY), sum = _mm512_setzero_ps();
  __m512 by = _mm512_set1_ps(scale);
  for (int64_t j = 0; j < T; j += 16) {
    __m512 v = _mm512_mul_ps(_mm512_load_ps(x + j), by);
    _mm512_store_ps(x + j, v);
    top = _mm512_mask_max_ps(top, mr__lanes(T - j), top, v);
  }
  float highest = _mm512_reduce_max_ps(top);
  for (int64_t j = 0; j < T; j += 16) {
    __m512 v = mr__exp(_mm512_sub_ps(_mm512_load_ps(x + j), _mm512_set1_ps(highest)));
    _mm512_store_ps(x + j, v);
    sum = _mm512_mask_add_ps(sum, mr__lanes(T - j), sum, v);
  }
  float all = _mm512_reduce_add_ps(sum);
  for (int64_t j = 0; j < T; j += 16) {
    __m512 v = _mm512_mul_ps(_mm512_load_ps(x + j), _mm512_set1_ps(1 / all));
    _mm512_store_ps(x + j, mr__rounded(t, v));
  }
  return highest + logf(all);
}

size_t mr__attention_fwd_work(const mr_attention_spec_t *s) {
  int64_t T = round16(s->T), D = round16(s->D);
  return (size_t)(2 * T * D + FWD_ROWS * (T + 2 * D)) * sizeof(float);
}

MR_AVX512 void mr__attention_fwd_avx512(const mr_attention_spec_t *s, const mr_attention_head_t *h,
                                        void *work) {
  int64_t T = round16(s->T), D = round16(s->D), size = (int64_t)mr_dtype_size(s->t);
  float *at = work, *kt = take(&at, D * T), *v = take(&at, T * D), *p = take(&at, FWD_ROWS * T);
  float *q = take(&at, FWD_ROWS * D), *o = take(&at, FWD_ROWS * D);
  mr__tile_load_t(s->t, h->k, s->k_tok, s->T, s->D, kt, T);
  mr__tile_load(s->t, h->v, s->v_tok, s->T, s->D, v, D);
  for (int64_t i = 0; i < s->T; i += FWD_ROWS) {
    int64_t rows = s->T - i < FWD_ROWS ? s->T - i : FWD_ROWS;
    mr_tile_product_t qk = {
        .m = rows, .n = T, .k = s->D, .a_row = D, .a_col = 1, .ldb = T, .ldc = T};
    mr_tile_product_t pv = {
        .m = rows, .n = D, .k = s->T, .a_row = T, .a_col = 1, .ldb = D, .ldc = D};
    mr__tile_load(s->t, (const char *)h->q + i * s->q_tok * size, s->q_tok, rows, s->D, q, D);
    mr__tile_multiply(&qk, q, kt, p);
    for (int64_t r = 0; r < rows; r++) {
      float lse = softmax_row(s->t, p + r * T, s->T, s->scale);
      if (h->lse) h->lse[i + r] = lse;
    }
    mr__tile_multiply(&pv, p, v, o);
    mr__tile_store(s->t, (char *)h->out + i * s->o_tok * size, s->o_tok, rows, s->D, o, D);
  }
}

/* p: scores in, weights rounded to t out; dp: gradients of the weights in, of the scores (times
   scale) out. */
MR_AVX512 static void backward_row(mr_dtype_t t, float *p, float *dp, int64_t T, float scale,
                                   float lse) {
  __m512 by = _mm512_set1_ps(scale), less = _mm512_set1_ps(lse), sum = _mm512_setzero_ps();
  for (int64_t j = 0; j < T; j += 16) {
    __m512 w = mr__exp(_mm512_fmsub_ps(_mm512_load_ps(p + j), by, less));
    __m512 d = _mm512_load_ps(dp + j);
    sum = _mm512_mask3_fmadd_ps(w, d, sum, mr__lanes(T - j));
    _mm512_store_ps(p + j, w);
  }
  __m512 dot = _mm512_set1_ps(_mm512_reduce_add_ps(sum));
  for (int64_t j = 0; j < T; j += 16) {
    __m512 w = _mm512_load_ps(p + j), d = _mm512_sub_ps(_mm512_load_ps(dp + j), dot);
    _mm512_store_ps(dp + j, _mm512_mul_ps(_mm512_mul_ps(w, d), by));
    _mm512_store_ps(p + j, mr__rounded(t, w));
  }
}

/* Tiles of one head's backward pass. */
typedef struct tiles {
  int64_t T, D;         /* rounded up */
  float *k, *kt, *vt;   /* [T][D], [D][T], [D][T] */
  float *dk, *dv;       /* [T][D], sums */
  float *q, *dout, *dq; /* [BWD_ROWS][D] */
  float *p, *dp;        /* [BWD_ROWS][T] */
} tiles_t;

static int64_t block_rows(const mr_attention_spec_t *s) {
  return s->T < BWD_ROWS ? s->T : BWD_ROWS;
}

size_t mr__attention_bwd_work(const mr_attention_spec_t *s) {
  int64_t T = round16(s->T), D = round16(s->D);
  return (size_t)(5 * T * D + block_rows(s) * (3 * D + 2 * T)) * sizeof(float);
}

static tiles_t split(const mr_attention_spec_t *s, float *work) {
  tiles_t x = {.T = round16(s->T), .D = round16(s->D)};
  int64_t all = x.T * x.D, rows = block_rows(s);
  x.k = take(&work, all);
  x.kt = take(&work, all);
  x.vt = take(&work, all);
  x.dk = take(&work, all);
  x.dv = take(&work, all);
  x.q = take(&work, rows * x.D);
  x.dout = take(&work, rows * x.D);
  x.dq = take(&work, rows * x.D);
  x.p = take(&work, rows * x.T);
  x.dp = take(&work, rows * x.T);
  return x;
}

/* The five products for `rows` queries from i on. */
static void backward_block(const mr_attention_spec_t *s, const mr_attention_head_t *h,
                           const tiles_t *x, int64_t i, int64_t rows) {
  int64_t T = x->T, D = x->D;
  mr_tile_product_t scores = {
      .m = rows, .n = T, .k = s->D, .a_row = D, .a_col = 1, .ldb = T, .ldc = T};
  mr_tile_product_t to_q = {
      .m = rows, .n = D, .k = s->T, .a_row = T, .a_col = 1, .ldb = D, .ldc = D};
  mr_tile_product_t to_kv = {
      .m = s->T, .n = D, .k = rows, .a_row = 1, .a_col = T, .ldb = D, .ldc = D, .add = i > 0};
  mr__tile_multiply(&scores, x->q, x->kt, x->p);
  mr__tile_multiply(&scores, x->dout, x->vt, x->dp);
  for (int64_t r = 0; r < rows; r++)
    backward_row(s->t, x->p + r * T, x->dp + r * T, s->T, s->scale, h->lse[i + r]);
  mr__tile_multiply(&to_q, x->dp, x->k, x->dq);
  mr__tile_multiply(&to_kv, x->dp, x->q, x->dk);
  mr__tile_multiply(&to_kv, x->p, x->dout, x->dv);
}

void mr__attention_bwd_avx512(const mr_attention_spec_t *s, const mr_attention_head_t *h,
                              void *work) {
  tiles_t x = split(s, work);
  int64_t size = (int64_t)mr_dtype_size(s->t);
  mr__tile_load(s->t, h->k, s->k_tok, s->T, s->D, x.k, x.D);
  mr__tile_load_t(s->t, h->k, s->k_tok, s->T, s->D, x.kt, x.T);
  mr__tile_load_t(s->t, h->v, s->v_tok, s->T, s->D, x.vt, x.T);
  for (int64_t i = 0; i < s->T; i += BWD_ROWS) {
    int64_t rows = s->T - i < BWD_ROWS ? s->T - i : BWD_ROWS;
    int64_t q = i * s->q_tok * size, o = i * s->o_tok * size;
    mr__tile_load(s->t, (const char *)h->q + q, s->q_tok, rows, s->D, x.q, x.D);
    mr__tile_load(s->t, (const char *)h->dout + o, s->o_tok, rows, s->D, x.dout, x.D);
    backward_block(s, h, &x, i, rows);
    mr__tile_store(s->t, (char *)h->dq + q, s->q_tok, rows, s->D, x.dq, x.D);
  }
  mr__tile_store(s->t, h->dk, s->k_tok, s->T, s->D, x.dk, x.D);
  mr__tile_store(s->t, h->dv, s->v_tok, s->T, s->D, x.dv, x.D);
}

#else

size_t mr__attention_fwd_work(const mr_attention_spec_t *s) { return 0; }
size_t mr__attention_bwd_work(const mr_attention_spec_t *s) { return 0; }
void mr__attention_fwd_avx512(const mr_attention_spec_t *s, const mr_attention_head_t *h,
                              void *work) {
  mr__attention_fwd_plain(s, h);
}
void mr__attention_bwd_avx512(const mr_attention_spec_t *s, const mr_attention_head_t *h,
                              void *work) {
  mr__attention_bwd_plain(s, h);
}

#endif
