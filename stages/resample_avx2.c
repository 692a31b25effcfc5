/* The passes with AVX2.  A weight q of 22 bits is q >> 11 and q & 2047, so that products of 16 bits
   give the same 32-bit sums as the plain passes. */
#include <string.h>

#include "stages/resample.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define AVX2 __attribute__((target("avx2")))
#define INLINE AVX2 static inline __attribute__((always_inline))

enum { BITS = 22 };

INLINE __m256i down_sum(__m256i high, __m256i low) {
  __m256i sum = _mm256_add_epi32(_mm256_slli_epi32(high, 11), low);
  return _mm256_srai_epi32(_mm256_add_epi32(sum, _mm256_set1_epi32(1 << (BITS - 1))), BITS);
}

/* 16 bytes of one output row.  q: the weights of `taps` rows, an odd last one beside a 0. */
INLINE __m128i down_16(const uint8_t *from, size_t stride, const int32_t *q, int taps) {
  __m256i high[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()}, low[2] = {high[0], high[0]};
  for (int k = 0; k < taps; k += 2, from += 2 * stride) {
    __m128i a = _mm_loadu_si128((const __m128i *)from);
    __m128i b = k + 1 < taps ? _mm_loadu_si128((const __m128i *)(from + stride)) : a;
    __m256i pair[2] = {_mm256_cvtepu8_epi16(_mm_unpacklo_epi8(a, b)),
                       _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(a, b))};
    int32_t q1 = k + 1 < taps ? q[k + 1] : 0;
    __m256i h = _mm256_set1_epi32((int)((uint32_t)(q[k] >> 11) & 0xFFFF) | (q1 >> 11) * 65536);
    __m256i l = _mm256_set1_epi32((q[k] & 2047) | (q1 & 2047) << 16);
    for (int i = 0; i < 2; i++) {
      high[i] = _mm256_add_epi32(high[i], _mm256_madd_epi16(pair[i], h));
      low[i] = _mm256_add_epi32(low[i], _mm256_madd_epi16(pair[i], l));
    }
  }
  /* packs work within 128-bit lanes: restore the order of words */
  __m256i v = _mm256_packs_epi32(down_sum(high[0], low[0]), down_sum(high[1], low[1]));
  v = _mm256_permute4x64_epi64(v, 0xD8);
  return _mm_packus_epi16(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}

AVX2 void mr__resample_down_avx2(const mr_weights_t *t, int base, mr_part_t src, size_t bytes,
                                 uint8_t *dst) {
  for (int y = 0; y < t->n; y++, dst += bytes) {
    const uint8_t *from = src.data + (size_t)(t->first[y] - base) * src.stride;
    const int32_t *q = t->q + y * t->taps;
    for (size_t x = 0; x < bytes; x += 16) {
      __m128i some = down_16(from + x, src.stride, q, t->count[y]);
      if (x + 16 <= bytes)
        _mm_storeu_si128((__m128i *)(dst + x), some);
      else
        memcpy(dst + x, &some, bytes - x);
    }
  }
}

/* Pixels of three bytes, four at a time: the pairs of the first two in the lower lane, of the
   others in the upper one. */
AVX2 void mr__resample_across_avx2(const mr_weights_t *t, int base, mr_part_t src, int h,
                                   uint8_t *dst) {
  const __m256i pick = _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1, 6,
                                        -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
  const __m256i spread = _mm256_setr_epi8(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6,
                                          7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7);
  for (int y = 0; y < h; y++) {
    const uint8_t *row = src.data + (size_t)y * src.stride;
    const int16_t *w = t->halves;
    for (int x = 0; x < t->n; x++, w += 2 * t->taps, dst += 3) {
      const uint8_t *from = row + 3 * (size_t)(t->first[x] - base);
      __m256i high = _mm256_setzero_si256(), low = high;
      for (int k = 0; k < t->count[x]; k += 4) {
        __m128i four = _mm_loadu_si128((const __m128i *)(from + 3 * k));
        __m256i pairs = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(four), pick);
        __m256i q = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(w + 2 * k)));
        high = _mm256_add_epi32(high, _mm256_madd_epi16(pairs, _mm256_shuffle_epi8(q, spread)));
        q = _mm256_shuffle_epi8(_mm256_srli_si256(q, 8), spread);
        low = _mm256_add_epi32(low, _mm256_madd_epi16(pairs, q));
      }
      __m256i both = _mm256_add_epi32(_mm256_slli_epi32(high, 11), low);
      __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
      sum = _mm_srai_epi32(_mm_add_epi32(sum, _mm_set1_epi32(1 << (BITS - 1))), BITS);
      sum = _mm_packus_epi16(_mm_packs_epi32(sum, sum), sum);
      int32_t pixel = _mm_cvtsi128_si32(sum);
      memcpy(dst, &pixel, 3);
    }
  }
}
#else
void mr__resample_down_avx2(const mr_weights_t *t, int base, mr_part_t src, size_t bytes,
                            uint8_t *dst) {
  mr__resample_down(t, base, src, bytes, dst);
}
void mr__resample_across_avx2(const mr_weights_t *t, int base, mr_part_t src, int h, uint8_t *dst) {
  mr__resample_across(t, base, src, 3, h, dst);
}
#endif
