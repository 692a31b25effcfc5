/* The inverse DCT of JPEG with AVX2, two blocks side by side: columns, then rows, in libjpeg's
   integer arithmetic of 13 bits of constants and 2 bits kept between both.

   libjpeg-turbo's kernels use 16 bits where libjpeg's C uses 32, and both agree where nothing
   exceeds them; a column whose coefficients sum up to MR_JPEG_SUM at most cannot.  Those of any
   block of 8-bit samples sum up to sqrt(8) * 1024 = 2896 before they are quantised. */
#include "stages/jpeg.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define INLINE __attribute__((target("avx2"), always_inline)) static inline

enum { BITS = 13, KEPT = 2 };

/* Constants of the flow graph: products of cosines, times 2^13. */
enum {
  C0_298 = 2446,
  C0_390 = 3196,
  C0_541 = 4433,
  C0_765 = 6270,
  C0_899 = 7373,
  C1_175 = 9633,
  C1_501 = 12299,
  C1_847 = 15137,
  C1_961 = 16069,
  C2_053 = 16819,
  C2_562 = 20995,
  C3_072 = 25172
};

/* Values of eight columns of two blocks, in 32 bits. */
typedef struct idct_wide {
  __m256i lo, hi;
} idct_wide_t;

/* x * a + y * b */
INLINE idct_wide_t idct_products(__m256i x, __m256i y, int a, int b) {
  __m256i c = _mm256_set1_epi32((int)((uint32_t)(uint16_t)a | (uint32_t)b << 16));
  return (idct_wide_t){_mm256_madd_epi16(_mm256_unpacklo_epi16(x, y), c),
                       _mm256_madd_epi16(_mm256_unpackhi_epi16(x, y), c)};
}

INLINE idct_wide_t idct_sum(idct_wide_t a, idct_wide_t b) {
  return (idct_wide_t){_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
}

INLINE idct_wide_t idct_difference(idct_wide_t a, idct_wide_t b) {
  return (idct_wide_t){_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)};
}

/* Drops `shift` bits, of values to which half of the last was added. */
INLINE __m256i idct_narrow(idct_wide_t v, int shift) {
  return _mm256_packs_epi32(_mm256_srai_epi32(v.lo, shift), _mm256_srai_epi32(v.hi, shift));
}

/* Sixteen transforms side by side: v[k] holds the values k of all. */
INLINE void idct_lines(__m256i v[8], int shift) {
  __m256i half = _mm256_set1_epi32(1 << (shift - 1));
  idct_wide_t t2 = idct_products(v[2], v[6], C0_541, C0_541 - C1_847);
  idct_wide_t t3 = idct_products(v[2], v[6], C0_541 + C0_765, C0_541);
  idct_wide_t t0 = idct_products(v[0], v[4], 1 << BITS, 1 << BITS);
  idct_wide_t t1 = idct_products(v[0], v[4], 1 << BITS, -(1 << BITS));
  t0 = idct_sum(t0, (idct_wide_t){half, half}), t1 = idct_sum(t1, (idct_wide_t){half, half});
  idct_wide_t even[4] = {idct_sum(t0, t3), idct_sum(t1, t2), idct_difference(t1, t2),
                         idct_difference(t0, t3)};
  __m256i z3 = _mm256_add_epi16(v[7], v[3]), z4 = _mm256_add_epi16(v[5], v[1]);
  idct_wide_t w3 = idct_products(z3, z4, C1_175 - C1_961, C1_175);
  idct_wide_t w4 = idct_products(z3, z4, C1_175, C1_175 - C0_390);
  idct_wide_t odd[4] = {idct_sum(idct_products(v[7], v[1], -C0_899, C1_501 - C0_899), w4),
                        idct_sum(idct_products(v[5], v[3], -C2_562, C3_072 - C2_562), w3),
                        idct_sum(idct_products(v[5], v[3], C2_053 - C2_562, -C2_562), w4),
                        idct_sum(idct_products(v[7], v[1], C0_298 - C0_899, -C0_899), w3)};
  for (int k = 0; k < 4; k++) {
    v[k] = idct_narrow(idct_sum(even[k], odd[k]), shift);
    v[7 - k] = idct_narrow(idct_difference(even[k], odd[k]), shift);
  }
}

/* Transposes both blocks. */
INLINE void idct_transpose(__m256i v[8]) {
  __m256i a[8], b[8];
  for (int k = 0; k < 4; k++) {
    a[2 * k] = _mm256_unpacklo_epi16(v[2 * k], v[2 * k + 1]);
    a[2 * k + 1] = _mm256_unpackhi_epi16(v[2 * k], v[2 * k + 1]);
  }
  for (int k = 0; k < 2; k++) /* of rows 4k to 4k + 3 */
    for (int h = 0; h < 2; h++) {
      b[4 * k + 2 * h] = _mm256_unpacklo_epi32(a[4 * k + h], a[4 * k + 2 + h]);
      b[4 * k + 2 * h + 1] = _mm256_unpackhi_epi32(a[4 * k + h], a[4 * k + 2 + h]);
    }
  for (int k = 0; k < 4; k++) {
    v[2 * k] = _mm256_unpacklo_epi64(b[k], b[4 + k]);
    v[2 * k + 1] = _mm256_unpackhi_epi64(b[k], b[4 + k]);
  }
}

INLINE __m256i idct_both(const void *a, const void *b) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(a)), _mm_loadu_si128(b), 1);
}

/* Multiplies coefficients by their steps, and clears them.  Returns whether each column's sum is
   small enough: a product that needs more than 16 bits counts as 65535. */
INLINE bool idct_scale(mr_jpeg_block_t *a, mr_jpeg_block_t *b, __m256i v[8]) {
  __m256i sum = _mm256_setzero_si256(), zero = sum, all = _mm256_cmpeq_epi16(sum, sum);
  for (int k = 0; k < 8; k++) {
    __m256i c = idct_both(a->coef + 8 * k, b->coef + 8 * k);
    __m256i q = idct_both(a->quant + 8 * k, b->quant + 8 * k);
    _mm_store_si128((__m128i *)(a->coef + 8 * k), _mm256_castsi256_si128(zero));
    _mm_store_si128((__m128i *)(b->coef + 8 * k), _mm256_castsi256_si128(zero));
    v[k] = _mm256_mullo_epi16(c, q);
    __m256i size = _mm256_abs_epi16(c);
    __m256i fits = _mm256_cmpeq_epi16(_mm256_mulhi_epu16(size, q), zero);
    __m256i product = _mm256_mullo_epi16(size, q); /* 16 bits without a sign */
    sum = _mm256_adds_epu16(sum, _mm256_or_si256(product, _mm256_xor_si256(fits, all)));
  }
  __m256i over = _mm256_subs_epu16(sum, _mm256_set1_epi16(MR_JPEG_SUM));
  return _mm256_testz_si256(over, over);
}

INLINE void idct_store(__m128i rows, uint8_t *to, size_t stride) {
  _mm_storel_epi64((__m128i *)to, rows);
  _mm_storel_epi64((__m128i *)(to + stride), _mm_unpackhi_epi64(rows, rows));
}

__attribute__((target("avx2"))) bool mr_jpeg_idct(mr_jpeg_block_t *a, mr_jpeg_block_t *b) {
  __m256i v[8];
  if (!idct_scale(a, b, v)) return false;
  idct_lines(v, BITS - KEPT);
  idct_transpose(v);
  idct_lines(v, BITS + KEPT + 3);
  idct_transpose(v);
  for (size_t r = 0; r < 8; r += 2) {
    __m256i s = _mm256_add_epi8(_mm256_packs_epi16(v[r], v[r + 1]), _mm256_set1_epi8((char)128));
    idct_store(_mm256_castsi256_si128(s), a->to + r * a->stride, a->stride);
    idct_store(_mm256_extracti128_si256(s, 1), b->to + r * b->stride, b->stride);
  }
  return true;
}
#endif
