/* Mirrors rows of pixels from left to right.  The plain loop is specialised for common numbers of
   channels by inlining; planes at least 32 bytes wide and pixels of three bytes have AVX2
   paths, in which a shuffle reverses 32 bytes or five pixels at a time. */
#include "stages/pixels.h"

/* C is a constant where this is inlined. */
static inline __attribute__((always_inline)) void mirror_rows(const uint8_t *src, uint8_t *dst,
                                                              int rows, int W, int C) {
  for (int y = 0; y < rows; y++, src += W * C)
    for (int x = W - 1; x >= 0; x--)
      for (int c = 0; c < C; c++) *dst++ = src[x * C + c];
}

void mr_mirror(const uint8_t *src, uint8_t *dst, int rows, int W, int C) {
  switch (C) {
    case 1: mirror_rows(src, dst, rows, W, 1); break;
    case 3: mirror_rows(src, dst, rows, W, 3); break;
    case 4: mirror_rows(src, dst, rows, W, 4); break;
    default: mirror_rows(src, dst, rows, W, C);
  }
}

#if defined(__x86_64__)
#include <immintrin.h>

/* Reverses the bytes within each half, then swaps the halves. */
__attribute__((target("avx2"))) static inline void mirror_32(const uint8_t *src, uint8_t *dst) {
  const __m128i half = _mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  __m256i v = _mm256_loadu_si256((const __m256i *)src);
  v = _mm256_shuffle_epi8(v, _mm256_broadcastsi128_si256(half));
  _mm256_storeu_si256((__m256i *)dst, _mm256_permute4x64_epi64(v, 0x4E));
}

/* The last 32 bytes of a row may overlap those before. */
__attribute__((target("avx2"))) void mr__mirror_avx2(const uint8_t *src, uint8_t *dst, int rows,
                                                     int W) {
  for (int y = 0; y < rows; y++, src += W, dst += W) {
    for (int x = 0; x + 32 < W; x += 32) mirror_32(src + W - 32 - x, dst + x);
    mirror_32(src, dst + W - 32);
  }
}

/* Reverses the order of five pixels, whose bytes begin one byte behind src.  Writes 16 bytes. */
__attribute__((target("avx2"))) static inline void mirror_5_rgb(const uint8_t *src, uint8_t *dst) {
  const __m128i back = _mm_setr_epi8(13, 14, 15, 10, 11, 12, 7, 8, 9, 4, 5, 6, 1, 2, 3, 0);
  _mm_storeu_si128((__m128i *)dst, _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)src), back));
}

/* At least one pixel is left behind five: its bytes take up what is read and written too much. */
__attribute__((target("avx2"))) void mr__mirror3_avx2(const uint8_t *src, uint8_t *dst, int rows,
                                                      int W) {
  for (int y = 0; y < rows; y++, src += 3 * W, dst += 3 * W) {
    int x = 0;
    for (; x + 6 <= W; x += 5) mirror_5_rgb(src + 3 * (W - 5 - x) - 1, dst + 3 * x);
    mirror_rows(src, dst + 3 * x, 1, W - x, 3);
  }
}

#else

void mr__mirror3_avx2(const uint8_t *src, uint8_t *dst, int rows, int W) {
  mr_mirror(src, dst, rows, W, 3);
}

void mr__mirror_avx2(const uint8_t *src, uint8_t *dst, int rows, int W) {
  mr_mirror(src, dst, rows, W, 1);
}

#endif
