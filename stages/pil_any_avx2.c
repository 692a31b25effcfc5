/* Passes of any size and number of taps with AVX2, in half blocks of 8 pixels and pairs of taps.
   Sums are exact integers, so the pixels are those of the plain path, bit for bit.  Where a block's
   bytes lie too far apart for one shuffle, each pixel gathers its own. */
#include <assert.h>
#include <string.h>

#include "stages/pil_resize.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define AVX2 __attribute__((target("avx2")))
#define INLINE AVX2 static inline __attribute__((always_inline))

enum { REACH = 64 /* bytes that a row's loads may exceed it by: 16 of a load, 2 a padded tap */ };

typedef struct sums {
  __m256i high, low;
} sums_t;

INLINE sums_t no_sums(void) { return (sums_t){_mm256_setzero_si256(), _mm256_set1_epi32(1 << 23)}; }

INLINE void weigh(sums_t *s, __m256i pairs, __m256i high, __m256i low) {
  s->high = _mm256_add_epi32(s->high, _mm256_madd_epi16(pairs, high));
  s->low = _mm256_add_epi32(s->low, _mm256_madd_epi16(pairs, low));
}

/* Converts two times eight sums to pixels. */
/* packs work within 128-bit lanes: restore the order of words */
INLINE __m128i pixels(sums_t a, sums_t b) {
  __m256i x = _mm256_add_epi32(_mm256_slli_epi32(a.high, 12), a.low);
  __m256i y = _mm256_add_epi32(_mm256_slli_epi32(b.high, 12), b.low);
  __m256i v = _mm256_packus_epi32(_mm256_srli_epi32(x, 24), _mm256_srli_epi32(y, 24));
  v = _mm256_permute4x64_epi64(v, 0xD8);
  return _mm_packus_epi16(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}

/* Loads a pair of taps of 8 pixels that are within 16 bytes of row. */
INLINE __m256i near_pairs(const uint8_t *row, __m128i pick) {
  return _mm256_cvtepu8_epi16(_mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)row), pick));
}

/* The same, each pixel from its own index. */
INLINE __m256i far_pairs(const uint8_t *row, const int *first) {
  const __m256i spread = _mm256_setr_epi8(0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13, -1,
                                          0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13, -1);
  __m256i at = _mm256_loadu_si256((const __m256i *)first);
  return _mm256_shuffle_epi8(_mm256_i32gather_epi32((const int *)row, at, 1), spread);
}

INLINE sums_t half_block(const mr_pil_any_t *t, const uint8_t *row, const int *first, int b,
                         int k) {
  const int16_t *high = t->high + 32 * t->pairs * b + 16 * k;
  const int16_t *low = t->low + 32 * t->pairs * b + 16 * k;
  __m128i pick = _mm_loadu_si128((const __m128i *)(t->pick_near + 32 * b + 16 * k));
  sums_t s = no_sums();
  for (int j = 0; j < t->pairs; j++, high += 32, low += 32) {
    __m256i v = t->near ? near_pairs(row + *first + 2 * j, pick) : far_pairs(row + 2 * j, first);
    weigh(&s, v, _mm256_loadu_si256((const __m256i *)high),
          _mm256_loadu_si256((const __m256i *)low));
  }
  return s;
}

/* Loads may exceed a row: if that is beyond the picture's end, the row is copied first. */
AVX2 static void pil_any_avx2_row_passes(const mr_pil_pass_t *pass, int out, const uint8_t *src,
                                         int stride, int h, int w, const uint8_t *end,
                                         uint8_t *dst) {
  const mr_pil_any_t *t = pass->any;
  uint8_t padded[MR_PIL_TABLE_MAX + REACH] = {0};
  for (int y = 0; y < h; y++, src += stride, dst += out) {
    const uint8_t *row = src;
    if (end - src < w + REACH) row = memcpy(padded, src, (size_t)w);
    for (int b = 0; b < t->blocks; b++) {
      int x = mr__pil_any_at(b, out);
      sums_t s0 = half_block(t, row, pass->first + x, b, 0);
      sums_t s1 = half_block(t, row, pass->first + x + 8, b, 1);
      _mm_storeu_si128((__m128i *)(dst + x), pixels(s0, s1));
    }
  }
}

INLINE __m256i both(const int16_t *weights) {
  int32_t word;
  memcpy(&word, weights, sizeof word);
  return _mm256_set1_epi32(word);
}

/* Sixteen pixels of an output row over `taps` rows; high and low advance by 32 from pair to
   pair. */
INLINE __m128i column_block(const uint8_t *src, int stride, int taps, const int16_t *high,
                            const int16_t *low) {
  sums_t s0 = no_sums(), s1 = no_sums();
  for (int k = 0; k < taps; k += 2, src += 2 * stride, high += 32, low += 32) {
    __m128i a = _mm_loadu_si128((const __m128i *)src);
    __m128i b = _mm_loadu_si128((const __m128i *)(k + 1 < taps ? src + stride : src));
    weigh(&s0, _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(a, b)), both(high), both(low));
    weigh(&s1, _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(a, b)), both(high), both(low));
  }
  return pixels(s0, s1);
}

/* Resizes columns, in rows of `width` >= 16 pixels. */
AVX2 static void pil_any_avx2_column_passes(const mr_pil_pass_t *pass, int out, const uint8_t *src,
                                            int stride, int width, uint8_t *dst) {
  const mr_pil_any_t *t = pass->any;
  for (int y = 0; y < out; y++, dst += width) {
    int block = y / 16, at = 32 * t->pairs * block + 2 * (y - mr__pil_any_at(block, out));
    const uint8_t *row = src + pass->first[y] * stride;
    for (int b = 0; b < (width + 15) / 16; b++) {
      int x = mr__pil_any_at(b, width);
      __m128i v = column_block(row + x, stride, pass->count[y], t->high + at, t->low + at);
      _mm_storeu_si128((__m128i *)(dst + x), v);
    }
  }
}

AVX2 void mr__pil_any_avx2(const mr_pil_t *p, const uint8_t *src, int C, int H, int W, mr_box_t b,
                           uint8_t *dst, uint8_t *scratch) {
  int out = p->out;
  bool down_first = mr__pil_down_first(p, b);
  const uint8_t *end = src + C * H * W;
  for (int c = 0; c < C; c++, dst += out * out) {
    const uint8_t *rows = src + (c * H + b.i) * W + b.j;
    int stride = W;
    if (down_first) {
      pil_any_avx2_column_passes(&p->pass[b.h], out, rows, W, b.w, scratch);
      pil_any_avx2_row_passes(&p->pass[b.w], out, scratch, b.w, out, b.w, scratch + out * b.w, dst);
      continue;
    }
    if (b.w != out) {
      uint8_t *to = b.h == out ? dst : scratch;
      pil_any_avx2_row_passes(&p->pass[b.w], out, rows, W, b.h, b.w, end, to);
      rows = to, stride = out;
    }
    if (b.h != out)
      pil_any_avx2_column_passes(&p->pass[b.h], out, rows, stride, out, dst);
    else if (b.w == out)
      for (int y = 0; y < out; y++) memcpy(dst + y * out, rows + y * W, (size_t)out);
  }
}

#else

void mr__pil_any_avx2(const mr_pil_t *p, const uint8_t *src, int C, int H, int W, mr_box_t b,
                      uint8_t *dst, uint8_t *scratch) {
  assert(!"p->any2 is false on this machine");
}

#endif
