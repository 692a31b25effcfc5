/* Transposing 16 x 16 lanes in AVX-512. */
#ifndef MR_MODEL_CPU_TILE_AVX512_H
#define MR_MODEL_CPU_TILE_AVX512_H

#if defined(__x86_64__)
#include <immintrin.h>

#include "base/dtype.h"

#define MR_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define MR_AVX512_INLINE static inline __attribute__((always_inline, unused)) MR_AVX512

/* The first n of 16 lanes; all for n >= 16, none for n <= 0. */
MR_AVX512_INLINE __mmask16 mr__first_lanes(int64_t n) {
  return n >= 16 ? 0xFFFF : n <= 0 ? 0 : (__mmask16)((1u << n) - 1);
}

/* Transposes in four rounds, which swap lanes 1, 2, 4 and 8 apart with rows 1, 2, 4 and 8
   apart. */
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

#endif
#endif
