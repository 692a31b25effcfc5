/* Parts of attention by dot products of bf16 pairs: tiles of pairs, their product, and storing
   rows as bf16.  For files compiled for AVX-512-bf16.

   A pair is two bf16 in 32 bits, the first one in the lower half.  Its elements are neighbours
   along the dimension that a product sums over.  Tiles are 64-aligned; the length of their rows
   is a multiple of 16 pairs or floats. */
#ifndef MR_MODEL_CPU_ATTENTION_PAIRS_H
#define MR_MODEL_CPU_ATTENTION_PAIRS_H

#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#include "model/backends/cpu/tile_avx512.h"

#define MR_INLINE static inline __attribute__((always_inline))

/* ---- making tiles ---- */

/* Transposes x[rows][cols], rows `stride` elements apart, to out[cols/2][ld]: pairs of
   neighbouring columns, whose number is even; rows [rows,ld) become 0. */
MR_INLINE void mr__pairs_turned(const mr_bf16_t *x, int64_t stride, int64_t rows, int64_t cols,
                                uint32_t *out, int64_t ld) {
  for (int64_t i = 0; i < ld; i += 16)
    for (int64_t c = 0; c < cols / 2; c += 16) {
      __m512 r[16];
      for (int64_t k = 0; k < 16; k++) {
        __mmask16 m = i + k < rows ? mr__first_lanes(cols / 2 - c) : 0;
        r[k] = _mm512_castsi512_ps(_mm512_maskz_loadu_epi32(m, x + (i + k) * stride + 2 * c));
      }
      mr__transpose16(r);
      for (int64_t k = 0; k < 16; k++)
        if (c + k < cols / 2) _mm512_store_ps((float *)(out + (c + k) * ld + i), r[k]);
    }
}

MR_INLINE __m512i mr__pairs_of(__m256i first, __m256i second) {
  __m512i high = _mm512_slli_epi32(_mm512_cvtepu16_epi32(second), 16);
  return _mm512_or_si512(_mm512_cvtepu16_epi32(first), high);
}

/* Interleaves x[rows][cols] to out[(rows+1)/2][ld]: pairs of neighbouring rows.  The partner of
   an odd last row, and columns [cols,ld), become 0. */
MR_INLINE void mr__pairs_woven(const mr_bf16_t *x, int64_t stride, int64_t rows, int64_t cols,
                               uint32_t *out, int64_t ld) {
  for (int64_t i = 0; i < rows; i += 2, out += ld)
    for (int64_t c = 0; c < ld; c += 16) {
      __mmask16 m = mr__first_lanes(cols - c);
      const mr_bf16_t *at = x + i * stride + c;
      __m256i first = _mm256_maskz_loadu_epi16(m, at);
      __m256i second = _mm256_maskz_loadu_epi16(i + 1 < rows ? m : 0, at + stride);
      _mm512_store_si512(out + c, mr__pairs_of(first, second));
    }
}

/* Rounds tile[rows][ld] of floats to x[rows][cols]. */
MR_INLINE void mr__rows_out(const float *tile, int64_t ld, int64_t rows, int64_t cols, mr_bf16_t *x,
                            int64_t stride) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t c = 0; c < cols; c += 16)
      _mm256_mask_storeu_epi16(x + i * stride + c, mr__first_lanes(cols - c),
                               (__m256i)_mm512_cvtneps_pbh(_mm512_load_ps(tile + i * ld + c)));
}

/* ---- products ---- */

/* c[m][n] (+)= sum_k a(i,k) b[k][n] over k pairs; a's pair (i,k) starts a_row i + a_col k elements
   from a, aligned or not; n, ldb and ldc are multiples of 16. */
typedef struct mr__pair_product {
  int64_t m, n, k;
  int64_t a_row, a_col, ldb, ldc;
  bool add; /* to what c holds */
} mr__pair_product_t;

/* A block of the result that stays in registers: rows, and vectors of 16 columns. */
enum { MR_PAIR_ROWS = 4, MR_PAIR_VECS = 5 };

MR_INLINE void mr__pair_block(const mr__pair_product_t *s, const mr_bf16_t *a, const uint32_t *b,
                              float *c, const int R, const int V) {
  __m512 sum[MR_PAIR_ROWS][MR_PAIR_VECS];
  for (int r = 0; r < R; r++)
    for (int v = 0; v < V; v++)
      sum[r][v] = s->add ? _mm512_load_ps(c + r * s->ldc + 16 * v) : _mm512_setzero_ps();
  for (int64_t k = 0; k < s->k; k++) {
    __m512bh row[MR_PAIR_VECS];
    for (int v = 0; v < V; v++) row[v] = (__m512bh)_mm512_load_si512(b + k * s->ldb + 16 * v);
    for (int r = 0; r < R; r++) {
      int32_t pair;
      memcpy(&pair, a + r * s->a_row + k * s->a_col, sizeof pair);
      __m512bh all = (__m512bh)_mm512_set1_epi32(pair);
      for (int v = 0; v < V; v++) sum[r][v] = _mm512_dpbf16_ps(sum[r][v], all, row[v]);
    }
  }
  for (int r = 0; r < R; r++)
    for (int v = 0; v < V; v++) _mm512_store_ps(c + r * s->ldc + 16 * v, sum[r][v]);
}

MR_INLINE void mr__pair_columns(const mr__pair_product_t *s, const mr_bf16_t *a, const uint32_t *b,
                                float *c, const int V) {
  int64_t i = 0;
  for (; i + MR_PAIR_ROWS <= s->m; i += MR_PAIR_ROWS)
    mr__pair_block(s, a + i * s->a_row, b, c + i * s->ldc, MR_PAIR_ROWS, V);
  for (; i < s->m; i++) mr__pair_block(s, a + i * s->a_row, b, c + i * s->ldc, 1, V);
}

static inline void mr__pair_multiply(const mr__pair_product_t *s, const mr_bf16_t *a,
                                     const uint32_t *b, float *c) {
  for (int64_t j = 0; j < s->n; j += 16 * MR_PAIR_VECS) switch ((s->n - j) / 16) {
      case 1: mr__pair_columns(s, a, b + j, c + j, 1); break;
      case 2: mr__pair_columns(s, a, b + j, c + j, 2); break;
      case 3: mr__pair_columns(s, a, b + j, c + j, 3); break;
      case 4: mr__pair_columns(s, a, b + j, c + j, 4); break;
      default: mr__pair_columns(s, a, b + j, c + j, MR_PAIR_VECS);
    }
}

#endif
