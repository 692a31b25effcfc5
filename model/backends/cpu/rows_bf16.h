/* GELU (tanh) and dropout of bf16, for files compiled for AVX-512-bf16. */
#ifndef MR_MODEL_CPU_ROWS_BF16_H
#define MR_MODEL_CPU_ROWS_BF16_H

#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "base/dtype.h"

/* ---- GELU, sixteen elements at a time, as accurate as a result of eight bits needs, in a third of
   the instructions of f32.

   0.5 (1 + tanh u) is 1 / (1 + 2^t) with t = -2 u log2(e).  2^t is computed from the nearest
   integer to t and a polynomial for the rest (4e-6 relative), the division from the machine's
   estimate and one Newton step. ---- */

#define MR_GELU_T0 -2.302208198f  /* -2 sqrt(2/pi) log2(e) */
#define MR_GELU_T1 -0.1029432397f /* 0.044715 times that */

/* 2^t for t >= -126; smaller t are clamped; NaN gives NaN. */
static inline __m512 mr__exp2_short(__m512 t) {
  t = _mm512_max_ps(_mm512_set1_ps(-126.0f), t);
  __m512 n = _mm512_roundscale_ps(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m512 r = _mm512_sub_ps(t, n), p = _mm512_set1_ps(9.6181291e-3f);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.5504109e-2f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(2.4022651e-1f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(6.9314718e-1f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
  return _mm512_scalef_ps(p, n);
}

/* 1 / (1 + 2^t), square: x^2 */
static inline __m512 mr__gelu_share(__m512 x, __m512 square) {
  __m512 t = _mm512_fmadd_ps(square, _mm512_set1_ps(MR_GELU_T1), _mm512_set1_ps(MR_GELU_T0));
  __m512 d = _mm512_add_ps(mr__exp2_short(_mm512_mul_ps(x, t)), _mm512_set1_ps(1.0f));
  __m512 r = _mm512_rcp14_ps(d);
  return _mm512_mul_ps(r, _mm512_fnmadd_ps(d, r, _mm512_set1_ps(2.0f)));
}

#define MR_PLUS_INF 0x08 /* of _mm512_fpclass_ps_mask */
#define MR_MINUS_INF 0x10

static inline __m512 mr__gelu16(__m512 x) {
  __mmask16 end = _mm512_fpclass_ps_mask(x, MR_MINUS_INF);
  x = _mm512_max_ps(_mm512_set1_ps(-10.0f), x); /* 2^t stays finite */
  __m512 share = mr__gelu_share(x, _mm512_mul_ps(x, x));
  return _mm512_mask_mul_ps(_mm512_set1_ps(NAN), (__mmask16)~end, x, share);
}

static inline __m512 mr__gelu_slope16(__m512 x) {
  __mmask16 end = _mm512_fpclass_ps_mask(x, MR_MINUS_INF | MR_PLUS_INF);
  x = _mm512_min_ps(_mm512_set1_ps(10.0f), _mm512_max_ps(_mm512_set1_ps(-10.0f), x));
  __m512 square = _mm512_mul_ps(x, x), s = mr__gelu_share(x, square);
  /* du/dx doubled: 2 sqrt(2/pi) (1 + 3 * 0.044715 x^2) */
  __m512 du = _mm512_fmadd_ps(square, _mm512_set1_ps(0.2140644488f), _mm512_set1_ps(1.595769122f));
  __m512 bend = _mm512_mul_ps(_mm512_mul_ps(x, s), _mm512_sub_ps(_mm512_set1_ps(1.0f), s));
  return _mm512_mask_mov_ps(_mm512_fmadd_ps(bend, du, s), end, _mm512_set1_ps(NAN));
}

/* ---- runs of elements ---- */

/* The last elements of a run go through an array of 16, as a masked store takes as long as all
   the rest. */
static inline __m512 mr__wide16(const mr_bf16_t *x) {
  __m256i half = _mm256_loadu_si256((const void *)x);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

static inline void mr__narrow16(mr_bf16_t *y, __m512 v) {
  _mm256_storeu_si256((void *)y, (__m256i)_mm512_cvtneps_pbh(v));
}

static inline void mr__gelu_bf16(const mr_bf16_t *x, mr_bf16_t *y, int64_t n) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) mr__narrow16(y + i, mr__gelu16(mr__wide16(x + i)));
  if (i == n) return;
  mr_bf16_t in[16] = {0}, out[16];
  memcpy(in, x + i, (size_t)(n - i) * sizeof *x);
  mr__narrow16(out, mr__gelu16(mr__wide16(in)));
  memcpy(y + i, out, (size_t)(n - i) * sizeof *y);
}

static inline __m512 mr__gelu_pull(const mr_bf16_t *x, const mr_bf16_t *dy) {
  return _mm512_mul_ps(mr__wide16(dy), mr__gelu_slope16(mr__wide16(x)));
}

static inline void mr__gelu_slope_bf16(const mr_bf16_t *x, const mr_bf16_t *dy, mr_bf16_t *dx,
                                       int64_t n) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) mr__narrow16(dx + i, mr__gelu_pull(x + i, dy + i));
  if (i == n) return;
  mr_bf16_t in[16] = {0}, din[16] = {0}, out[16];
  memcpy(in, x + i, (size_t)(n - i) * sizeof *x);
  memcpy(din, dy + i, (size_t)(n - i) * sizeof *dy);
  mr__narrow16(out, mr__gelu_pull(in, din));
  memcpy(dx + i, out, (size_t)(n - i) * sizeof *dx);
}

/* ---- dropout, 32 elements at a time, given the draws ---- */

static inline __m512 mr__widen(__m256i half) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

/* y[32] = draw >= limit ? x scale : 0; a kept NaN stays NaN. */
static inline void mr__drop32(const mr_bf16_t *x, mr_bf16_t *y, const uint16_t *draw, __m512i limit,
                              __m512 scale) {
  __mmask32 keep = _mm512_cmpge_epu16_mask(_mm512_loadu_si512(draw), limit);
  __m512 low = mr__widen(_mm256_loadu_si256((const void *)x));
  __m512 high = mr__widen(_mm256_loadu_si256((const void *)(x + 16)));
  __m512i both =
      (__m512i)_mm512_cvtne2ps_pbh(_mm512_mul_ps(high, scale), _mm512_mul_ps(low, scale));
  _mm512_storeu_si512(y, _mm512_maskz_mov_epi16(keep, both));
}

/* n a multiple of 32; limit in [0, 65535] */
static inline void mr__dropout_bf16(const mr_bf16_t *x, mr_bf16_t *y, const uint16_t *draw, int n,
                                    int limit, float scale) {
  __m512i least = _mm512_set1_epi16((short)limit);
  __m512 by = _mm512_set1_ps(scale);
  for (int i = 0; i < n; i += 32) mr__drop32(x + i, y + i, draw + i, least, by);
}

#endif
