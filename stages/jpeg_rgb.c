/* Rows of pixels from JPEG's samples: chroma that has half the resolution is smoothed as libjpeg's
   "fancy" upsampling does it (3/4 of the nearer sample, 1/4 of the further one, in each direction),
   then YCbCr becomes RGB by libjpeg's constants.  At the picture's edges the further sample is the
   nearer one; at those of a box it is the one outside. */
#include <string.h>

#include "base/isa.h"
#include "stages/jpeg.h"

#define INLINE static inline __attribute__((always_inline))

/* 1.402, 0.34414, 0.71414 and 1.772, times 2^16. */
enum { CR_R = 91881, CB_G = 22554, CR_G = 46802, CB_B = 116130, HALF = 1 << 15 };

INLINE uint8_t rgb_byte(int v) { return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v); }

INLINE void rgb_pixels(const uint8_t *restrict y, const uint8_t *restrict cb,
                       const uint8_t *restrict cr, int from, int w, uint8_t *restrict rgb) {
  for (int k = from; k < w; k++) {
    int b = cb[k] - 128, r = cr[k] - 128;
    rgb[3 * k] = rgb_byte(y[k] + ((CR_R * r + HALF) >> 16));
    rgb[3 * k + 1] = rgb_byte(y[k] + ((-CB_G * b - CR_G * r + HALF) >> 16));
    rgb[3 * k + 2] = rgb_byte(y[k] + ((CB_B * b + HALF) >> 16));
  }
}

#if defined(__x86_64__)
#include <immintrin.h>

/* Scratch: a line of sums with one more at each end, and two of upsampled chroma. */
enum { ALIGN = 64 };
static size_t padded_row(int w) { return ((size_t)w + 2 * ALIGN) / ALIGN * ALIGN; }

size_t mr_jpeg_row_scratch(int w) {
  return sizeof(int16_t) * padded_row(w / 2 + 4) + 2 * padded_row(w + 4);
}

INLINE int rgb_within(int v, int n) { return v < 0 ? 0 : v < n ? v : n - 1; }

static const uint8_t *rgb_samples(const mr_jpeg_part_t *p, int y) {
  return p->samples + (size_t)(rgb_within(y, p->h) - p->top) * p->stride;
}

/* Sums of samples [from, from + n) of a part for row y of the picture; down: rows of the picture a
   row of samples.  Needs one sample more on each side of those. */
INLINE void rgb_sum(const mr_jpeg_part_t *p, int y, int down, int from, int n, int16_t *sum) {
  const uint8_t *near = rgb_samples(p, y / down), *far = near;
  if (down == 2) far = rgb_samples(p, y & 1 ? y / 2 + 1 : y / 2 - 1);
  int lo = from > 0 ? from - 1 : 0, hi = from + n < p->w ? from + n + 1 : p->w;
  near += lo - p->left, far += lo - p->left;
  int16_t *to = sum + (lo - from);
  if (down == 2)
    for (int k = 0; k < hi - lo; k++) to[k] = (int16_t)(3 * near[k] + far[k]);
  else
    for (int k = 0; k < hi - lo; k++) to[k] = near[k];
  if (from == 0) sum[-1] = sum[0];
  if (from + n >= p->w) sum[p->w - from] = sum[p->w - from - 1];
}

/* Twice as many samples as sums. */
INLINE void rgb_widen(const int16_t *restrict sum, int n, int first, int second, int shift,
                      uint8_t *restrict to) {
  for (int k = 0; k < n; k++) {
    to[2 * k] = (uint8_t)((3 * sum[k] + sum[k - 1] + first) >> shift);
    to[2 * k + 1] = (uint8_t)((3 * sum[k] + sum[k + 1] + second) >> shift);
  }
}

/* A row of a chroma part at the picture's resolution, from column j on. */
INLINE const uint8_t *rgb_chroma(const mr_jpeg_part_t *part, int which, int y, int j, int w,
                                 int16_t *sum, uint8_t *to) {
  const mr_jpeg_part_t *p = part + which;
  int across = part->across / p->across, down = part->down / p->down;
  if (across == 1) return rgb_samples(p, y) + (j - p->left);
  int from = j / 2, n = (j + w + 1) / 2 - from;
  rgb_sum(p, y, down, from, n, sum);
  if (down == 2)
    rgb_widen(sum, n, 8, 7, 4, to);
  else
    rgb_widen(sum, n, 1, 2, 2, to);
  return to + (j & 1);
}

INLINE void rgb_grey(const uint8_t *restrict y, int w, uint8_t *restrict rgb) {
  for (int k = 0; k < w; k++) rgb[3 * k] = rgb[3 * k + 1] = rgb[3 * k + 2] = y[k];
}

/* The sums' first: one more lies before it. */
INLINE int16_t *rgb_sums(void *scratch) { return (int16_t *)scratch + ALIGN / 2; }

/* ---- AVX2 ---- */

#define AVX2 __attribute__((target("avx2")))

/* Sixteen products of v and c / 2^16, rounded to the nearest; c / 2^16 within (-1/2, 1/2). */
AVX2 static inline __m256i rgb_product(__m256i v, int c) {
  __m256i twice = _mm256_mulhi_epi16(_mm256_add_epi16(v, v), _mm256_set1_epi16((short)c));
  return _mm256_srai_epi16(_mm256_add_epi16(twice, _mm256_set1_epi16(1)), 1);
}

/* Sums of sixteen products of a and b by ca and cb, over 2^16, rounded. */
AVX2 static inline __m256i rgb_products(__m256i a, __m256i b, int ca, int cb) {
  __m256i c = _mm256_set1_epi32((int)((uint32_t)(uint16_t)ca | (uint32_t)cb << 16));
  __m256i half = _mm256_set1_epi32(HALF);
  __m256i lo = _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), c);
  __m256i hi = _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), c);
  return _mm256_packs_epi32(_mm256_srai_epi32(_mm256_add_epi32(lo, half), 16),
                            _mm256_srai_epi32(_mm256_add_epi32(hi, half), 16));
}

AVX2 static inline __m128i rgb_narrow(__m256i v) {
  return _mm_packus_epi16(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}

/* [vector][channel]: which byte of a channel goes where when three are interleaved; 0x80: none. */
#define N 0x80
static const uint8_t rgb_place[3][3][16]
    __attribute__((aligned(16))) = {{{0, N, N, 1, N, N, 2, N, N, 3, N, N, 4, N, N, 5},
                                     {N, 0, N, N, 1, N, N, 2, N, N, 3, N, N, 4, N, N},
                                     {N, N, 0, N, N, 1, N, N, 2, N, N, 3, N, N, 4, N}},
                                    {{N, N, 6, N, N, 7, N, N, 8, N, N, 9, N, N, 10, N},
                                     {5, N, N, 6, N, N, 7, N, N, 8, N, N, 9, N, N, 10},
                                     {N, 5, N, N, 6, N, N, 7, N, N, 8, N, N, 9, N, N}},
                                    {{N, 11, N, N, 12, N, N, 13, N, N, 14, N, N, 15, N, N},
                                     {N, N, 11, N, N, 12, N, N, 13, N, N, 14, N, N, 15, N},
                                     {10, N, N, 11, N, N, 12, N, N, 13, N, N, 14, N, N, 15}}};
#undef N

AVX2 static inline void rgb_store(const __m128i channel[3], uint8_t *rgb) {
  for (int v = 0; v < 3; v++) {
    __m128i out = _mm_setzero_si128();
    for (int c = 0; c < 3; c++) {
      __m128i place = _mm_load_si128((const __m128i *)rgb_place[v][c]);
      out = _mm_or_si128(out, _mm_shuffle_epi8(channel[c], place));
    }
    _mm_storeu_si128((__m128i *)(rgb + 16 * v), out);
  }
}

AVX2 static inline __m256i rgb_load(const uint8_t *at) {
  return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)at));
}

AVX2 static void rgb_pixels_avx2(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, int w,
                                 uint8_t *rgb) {
  int k = 0;
  for (__m256i middle = _mm256_set1_epi16(128); k + 16 <= w; k += 16) {
    __m256i l = rgb_load(y + k), b = _mm256_sub_epi16(rgb_load(cb + k), middle),
            r = _mm256_sub_epi16(rgb_load(cr + k), middle);
    __m256i red = _mm256_add_epi16(_mm256_add_epi16(l, r), rgb_product(r, CR_R - 65536));
    __m256i green =
        _mm256_add_epi16(_mm256_sub_epi16(l, r), rgb_products(b, r, -CB_G, 65536 - CR_G));
    __m256i blue = _mm256_add_epi16(_mm256_add_epi16(l, _mm256_add_epi16(b, b)),
                                    rgb_product(b, CB_B - 131072));
    const __m128i channel[3] = {rgb_narrow(red), rgb_narrow(green), rgb_narrow(blue)};
    rgb_store(channel, rgb + 3 * k);
  }
  rgb_pixels(y, cb, cr, k, w, rgb);
}

AVX2 void mr_jpeg_row(const mr_jpeg_part_t *part, int n, int y, int j, int w, uint8_t *rgb,
                      void *scratch) {
  const uint8_t *luma = rgb_samples(part, y) + (j - part->left);
  if (n == 1) {
    rgb_grey(luma, w, rgb);
    return;
  }
  uint8_t *row = (uint8_t *)scratch + sizeof(int16_t) * padded_row(w / 2 + 4);
  const uint8_t *cb = rgb_chroma(part, 1, y, j, w, rgb_sums(scratch), row);
  const uint8_t *cr = rgb_chroma(part, 2, y, j, w, rgb_sums(scratch), row + padded_row(w + 4));
  rgb_pixels_avx2(luma, cb, cr, w, rgb);
}

void mr_jpeg_rgb(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, int n, uint8_t *rgb) {
  if (mr_isa() >= MR_ISA_AVX2)
    rgb_pixels_avx2(y, cb, cr, n, rgb);
  else
    rgb_pixels(y, cb, cr, 0, n, rgb);
}
#else
void mr_jpeg_rgb(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, int n, uint8_t *rgb) {
  rgb_pixels(y, cb, cr, 0, n, rgb);
}
#endif
