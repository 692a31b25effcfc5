/* Dropout of bf16, 32 elements at a time, given the draws.  For files compiled for
   AVX-512-bf16. */
#ifndef MR_MODEL_CPU_ROWS_DROPOUT_H
#define MR_MODEL_CPU_ROWS_DROPOUT_H

#include <immintrin.h>

#include "base/dtype.h"

static inline __m512 mr__widened(__m256i half) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

/* y[32] = draw >= limit ? x scale : 0; a kept NaN stays NaN. */
static inline void mr__drop32(const mr_bf16_t *x, mr_bf16_t *y, const uint16_t *draw, __m512i limit,
                              __m512 scale) {
  __mmask32 keep = _mm512_cmpge_epu16_mask(_mm512_loadu_si512(draw), limit);
  __m512 low = mr__widened(_mm256_loadu_si256((const void *)x));
  __m512 high = mr__widened(_mm256_loadu_si256((const void *)(x + 16)));
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
