/* Small f32 tiles in AVX-512: moving rows in and out, transposing, exp, and products whose
   operands stay in the first two caches.  Tiles are 64-aligned, rows a multiple of 16 floats. */
#ifndef MR_MODEL_CPU_TILE_AVX512_H
#define MR_MODEL_CPU_TILE_AVX512_H

#include <stdbool.h>

/* The machine has AVX-512 (f, bw, dq, vl) and MILLRACE_ISA does not forbid it. */
bool mr__avx512_wanted(void);

#if defined(__x86_64__)
#include <immintrin.h>

#include "base/dtype.h"

#define MR_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define MR_AVX512_INLINE static inline __attribute__((always_inline, unused)) MR_AVX512

/* The first n of 16 lanes; all for n >= 16, none for n <= 0. */
MR_AVX512_INLINE __mmask16 mr__lanes(int64_t n) {
  return n >= 16 ? 0xFFFF : n <= 0 ? 0 : (__mmask16)((1u << n) - 1);
}

/* As mr_bf16_from_f32, 16 at a time, each in the lower half of its lane. */
MR_AVX512_INLINE __m512i mr__bf16_bits(__m512 x) {
  __m512i u = _mm512_castps_si512(x), upper = _mm512_srli_epi32(u, 16);
  __m512i odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
  __m512i r = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7FFF)), odd);
  __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  return _mm512_mask_or_epi32(_mm512_srli_epi32(r, 16), nan, upper, _mm512_set1_epi32(0x40));
}

MR_AVX512_INLINE __m512 mr__rounded(mr_dtype_t t, __m512 x) {
  return t == MR_F32 ? x : _mm512_castsi512_ps(_mm512_slli_epi32(mr__bf16_bits(x), 16));
}

/* Lanes of m from element i on, the others 0. */
MR_AVX512_INLINE __m512 mr__load(mr_dtype_t t, const void *x, int64_t i, __mmask16 m) {
  if (t == MR_F32) return _mm512_maskz_loadu_ps(m, (const float *)x + i);
  __m256i h = _mm256_maskz_loadu_epi16(m, (const mr_bf16_t *)x + i);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

MR_AVX512_INLINE void mr__store(mr_dtype_t t, void *x, int64_t i, __mmask16 m, __m512 v) {
  if (t == MR_F32)
    _mm512_mask_storeu_ps((float *)x + i, m, v);
  else
    _mm256_mask_storeu_epi16((mr_bf16_t *)x + i, m, _mm512_cvtepi32_epi16(mr__bf16_bits(v)));
}

/* e^x for x <= 88; below -104 it is 0.  Reduction by ln 2 in two parts, polynomial of degree 6
   (its error stays under one unit in the last place). */
MR_AVX512_INLINE __m512 mr__exp(__m512 x) {
  x = _mm512_max_ps(_mm512_set1_ps(-104), x); /* in this order a NaN stays one */
  __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), 8);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), r);
  __m512 y = _mm512_set1_ps(1.0f / 720);
  y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(1.0f / 120));
  y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(1.0f / 24));
  y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(1.0f / 6));
  y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(0.5f));
  y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(1));
  y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(1));
  return _mm512_scalef_ps(y, n);
}

/* In four rounds lanes 1, 2, 4 and 8 apart change places with rows as far apart. */
MR_AVX512_INLINE void mr__transpose16(__m512 r[16]) {
  __m512 s[16];
  for (int i = 0; i < 16; i += 2) {
    s[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    s[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4)
    for (int k = 0; k < 2; k++) {
      __m512d lo = _mm512_castps_pd(s[i + k]), hi = _mm512_castps_pd(s[i + k + 2]);
      r[i + 2 * k] = _mm512_castpd_ps(_mm512_unpacklo_pd(lo, hi));
      r[i + 2 * k + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(lo, hi));
    }
  for (int i = 0; i < 16; i += 8)
    for (int k = 0; k < 4; k++) {
      s[i + k] = _mm512_shuffle_f32x4(r[i + k], r[i + k + 4], 0x88);
      s[i + k + 4] = _mm512_shuffle_f32x4(r[i + k], r[i + k + 4], 0xDD);
    }
  for (int k = 0; k < 8; k++) {
    r[k] = _mm512_shuffle_f32x4(s[k], s[k + 8], 0x88);
    r[k + 8] = _mm512_shuffle_f32x4(s[k], s[k + 8], 0xDD);
  }
}

/* rows x cols elements of x, `stride` apart from row to row, to tile[rows][ld]; columns up to ld
   become 0. */
void mr__tile_load(mr_dtype_t t, const void *x, int64_t stride, int64_t rows, int64_t cols,
                   float *tile, int64_t ld);
/* The same transposed: tile[cols rounded up to 16][ld], ld >= rows rounded up to 16. */
void mr__tile_load_t(mr_dtype_t t, const void *x, int64_t stride, int64_t rows, int64_t cols,
                     float *tile, int64_t ld);
void mr__tile_store(mr_dtype_t t, void *x, int64_t stride, int64_t rows, int64_t cols,
                    const float *tile, int64_t ld);

/* c[m][n] (+)= sum_k a(i,k) b[k][n]; a's element (i,k) lies at a[i * a_row + k * a_col]; n is a
   multiple of 16; rows of b and c are ldb and ldc apart. */
typedef struct mr_tile_product {
  int64_t m, n, k;
  int64_t a_row, a_col, ldb, ldc;
  bool add; /* to what c holds */
} mr_tile_product_t;
void mr__tile_multiply(const mr_tile_product_t *s, const float *a, const float *b, float *c);

#endif
#endif
