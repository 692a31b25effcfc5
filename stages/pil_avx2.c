/* Two-tap passes of pictures 32 pixels wide with AVX2.

   A weight q of 22 bits is high*2^11 + low.  Sums of two u8 pixels times either half are 16-bit dot
   products (vpmaddwd), and (sum_high << 11) + sum_low is the exact 32-bit sum. */
#include <assert.h>
#include <string.h>

#include "stages/pil_resize.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define AVX2 __attribute__((target("avx2")))

/* pair: 8 pairs of pixels as u16; high, low: their weights.  Returns eight sums, in [0,255], as
   s32. */
AVX2 static inline __m256i weigh_8(__m256i pair, __m256i high, __m256i low) {
  __m256i h = _mm256_slli_epi32(_mm256_madd_epi16(pair, high), 11);
  __m256i l = _mm256_add_epi32(_mm256_madd_epi16(pair, low), _mm256_set1_epi32(1 << 21));
  return _mm256_srli_epi32(_mm256_add_epi32(h, l), 22);
}

/* Pixels [8b,8b+8) of a row.  Reads 16 bytes from row + first[8b]. */
AVX2 static inline __m256i row_block(const mr_pil_pass_t *t, const uint8_t *row, int b) {
  __m128i v = _mm_loadu_si128((const __m128i *)(row + t->first[8 * b]));
  v = _mm_shuffle_epi8(v, _mm_loadu_si128((const __m128i *)(t->pick + 16 * b)));
  return weigh_8(_mm256_cvtepu8_epi16(v), _mm256_loadu_si256((const __m256i *)(t->high + 16 * b)),
                 _mm256_loadu_si256((const __m256i *)(t->low + 16 * b)));
}

/* packs work within 128-bit lanes: restore the order of words */
AVX2 static inline void row_pass(const mr_pil_pass_t *t, const uint8_t *row, uint8_t *dst) {
  __m256i a = _mm256_packus_epi32(row_block(t, row, 0), row_block(t, row, 1));
  __m256i b = _mm256_packus_epi32(row_block(t, row, 2), row_block(t, row, 3));
  __m256i v = _mm256_packus_epi16(a, b);
  v = _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  _mm256_storeu_si256((__m256i *)dst, v);
}

AVX2 static inline __m256i column_mix(__m256i a, __m256i b, __m256i high, __m256i low) {
  const __m256i zero = _mm256_setzero_si256();
  __m256i l = _mm256_unpacklo_epi8(a, b), h = _mm256_unpackhi_epi8(a, b);
  __m256i ll = weigh_8(_mm256_unpacklo_epi8(l, zero), high, low);
  __m256i lh = weigh_8(_mm256_unpackhi_epi8(l, zero), high, low);
  __m256i hl = weigh_8(_mm256_unpacklo_epi8(h, zero), high, low);
  __m256i hh = weigh_8(_mm256_unpackhi_epi8(h, zero), high, low);
  return _mm256_packus_epi16(_mm256_packus_epi32(ll, lh), _mm256_packus_epi32(hl, hh));
}

AVX2 static inline __m256i pil_avx2_both(const int16_t *pair) {
  int32_t word;
  memcpy(&word, pair, sizeof word);
  return _mm256_set1_epi32(word);
}

/* Resizes rows of 32 pixels, stride apart, to 32 rows of 32. */
AVX2 static void pil_avx2_column_pass(const mr_pil_pass_t *t, const uint8_t *src, int stride,
                                      uint8_t *dst) {
  for (int y = 0; y < 32; y++) {
    const uint8_t *r0 = src + t->first[y] * stride, *r1 = t->count[y] > 1 ? r0 + stride : r0;
    __m256i a = _mm256_loadu_si256((const __m256i *)r0);
    __m256i b = _mm256_loadu_si256((const __m256i *)r1);
    __m256i v = column_mix(a, b, pil_avx2_both(t->high + 2 * y), pil_avx2_both(t->low + 2 * y));
    _mm256_storeu_si256((__m256i *)(dst + 32 * y), v);
  }
}

/* Resizes all rows of a box.  A row may be read up to 16 bytes past its box, which is still inside
   the picture except in its last row: `last` says so, and that row is copied to padded memory
   first. */
AVX2 static void pil_avx2_row_passes(const mr_pil_pass_t *t, const uint8_t *src, mr_box_t b,
                                     bool last, uint8_t *dst) {
  int rows = last ? b.h - 1 : b.h;
  for (int y = 0; y < rows; y++) row_pass(t, src + 32 * y, dst + 32 * y);
  if (!last) return;
  uint8_t padded[64] = {0};
  memcpy(padded, src + 32 * rows, (size_t)b.w);
  row_pass(t, padded, dst + 32 * rows);
}

AVX2 void mr__pil_crop_avx2(const mr_pil_t *p, const uint8_t *src, int C, int H, mr_box_t b,
                            uint8_t *dst, uint8_t *scratch) {
  for (int c = 0; c < C; c++, dst += 1024) {
    const uint8_t *rows = src + (c * H + b.i) * 32 + b.j;
    bool last = c == C - 1 && b.i + b.h == H;
    if (b.w != 32) {
      uint8_t *to = b.h == 32 ? dst : scratch;
      pil_avx2_row_passes(&p->pass[b.w], rows, b, last, to);
      rows = to;
    }
    if (b.h != 32) {
      pil_avx2_column_pass(&p->pass[b.h], rows, 32, dst);
    } else if (b.w == 32) {
      memcpy(dst, rows, 1024);
    }
  }
}

#else

void mr__pil_crop_avx2(const mr_pil_t *p, const uint8_t *src, int C, int H, mr_box_t b,
                       uint8_t *dst, uint8_t *scratch) {
  assert(!"p->avx2 is false on this machine");
}

#endif
