/* Normalises planes with AVX2: bytes are interleaved first, while they are small, and each division
   becomes two multiplications, which formula_agrees has compared with the table bit by bit. */
#include <assert.h>
#include <string.h>

#include "stages/norm.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define AVX2 __attribute__((target("avx2,fma")))
#define INLINE AVX2 static inline __attribute__((always_inline))

/* Constants for eight neighbours: of one channel, or interleaved from channel `phase` on. */
typedef struct lanes {
  __m256 mean, inv, rest;
} lanes_t;

INLINE lanes_t turning(const mr_norm_t *t, int phase) {
  return (lanes_t){_mm256_loadu_ps(t->turn[0] + phase), _mm256_loadu_ps(t->turn[1] + phase),
                   _mm256_loadu_ps(t->turn[2] + phase)};
}

INLINE lanes_t steady(const mr_norm_t *t, int c) {
  return (lanes_t){_mm256_set1_ps(t->mean[c]), _mm256_set1_ps(t->inv[c]),
                   _mm256_set1_ps(t->rest[c])};
}

INLINE __m256 divided(__m256 x, __m256 inv, __m256 rest) {
  return _mm256_fmadd_ps(x, inv, _mm256_mul_ps(x, rest));
}

/* Rounds to bf16, ties to even, in the lower halves. */
INLINE __m256i rounded(__m256 x) {
  __m256i u = _mm256_castps_si256(x), one = _mm256_set1_epi32(1);
  __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), one);
  u = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7FFF)), odd);
  return _mm256_srli_epi32(u, 16);
}

/* Normalises eight bytes and stores them `at` elements after dst. */
INLINE void store8(__m128i bytes, const lanes_t *l, bool wide, void *dst, int at) {
  __m256 x = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
  x = divided(x, _mm256_set1_ps(MR_NORM_INV), _mm256_set1_ps(MR_NORM_REST));
  x = divided(_mm256_sub_ps(x, l->mean), l->inv, l->rest);
  if (wide) {
    _mm256_storeu_ps((float *)dst + at, x);
    return;
  }
  __m256i h = rounded(x);
  __m128i both = _mm_packus_epi32(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
  _mm_storeu_si128((__m128i *)((mr_bf16_t *)dst + at), both);
}

/* Interleaves sixteen bytes from channels r, g, b; a mask says which byte goes where. */
INLINE __m128i interleave(const __m128i px[3], const __m128i *mask) {
  __m128i rg = _mm_or_si128(_mm_shuffle_epi8(px[0], mask[0]), _mm_shuffle_epi8(px[1], mask[1]));
  return _mm_or_si128(rg, _mm_shuffle_epi8(px[2], mask[2]));
}

/* mask[v][c]: byte k of vector v is pixel (16v+k)/3 of channel (16v+k)%3. */
AVX2 static void interleave_masks(__m128i mask[3][3]) {
  for (int v = 0; v < 3; v++)
    for (int c = 0; c < 3; c++) {
      uint8_t m[16];
      for (int k = 0; k < 16; k++)
        m[k] = (uint8_t)((16 * v + k) % 3 == c ? (16 * v + k) / 3 : 0x80);
      mask[v][c] = _mm_loadu_si128((const __m128i *)m);
    }
}

INLINE void load16(const uint8_t *src, int n, __m128i px[3]) {
  for (int c = 0; c < 3; c++) px[c] = _mm_loadu_si128((const __m128i *)(src + c * n));
}

INLINE void hwc_floats(const mr_norm_t *t, const uint8_t *src, int n, bool wide, void *dst) {
  const lanes_t l[3] = {turning(t, 0), turning(t, 1), turning(t, 2)};
  __m128i mask[3][3], px[3];
  interleave_masks(mask);
  for (int k = 0, at = 0; k < n; k += 16) {
    load16(src + k, n, px);
    for (int v = 0; v < 3; v++, at += 16) { /* the channel advances by 16 % 3 and 8 % 3 */
      __m128i b = interleave(px, mask[v]);
      store8(b, &l[v], wide, dst, at);
      store8(_mm_srli_si128(b, 8), &l[(v + 2) % 3], wide, dst, at + 8);
    }
  }
}

INLINE void chw_floats(const mr_norm_t *t, const uint8_t *src, int n, bool wide, void *dst) {
  for (int c = 0; c < 3; c++) {
    const lanes_t l = steady(t, c);
    for (int at = c * n; at < (c + 1) * n; at += 8)
      store8(_mm_loadl_epi64((const __m128i *)(src + at)), &l, wide, dst, at);
  }
}

AVX2 static void hwc_bytes(const uint8_t *src, int n, uint8_t *dst) {
  __m128i mask[3][3], px[3];
  interleave_masks(mask);
  for (int k = 0; k < n; k += 16) {
    load16(src + k, n, px);
    for (int v = 0; v < 3; v++, dst += 16)
      _mm_storeu_si128((__m128i *)dst, interleave(px, mask[v]));
  }
}

AVX2 void mr__norm_avx2(const mr_norm_t *t, const uint8_t *src, int n, bool hwc, mr_dtype_t out,
                        void *dst) {
  if (out == MR_U8 && hwc)
    hwc_bytes(src, n, dst);
  else if (out == MR_U8)
    memcpy(dst, src, 3 * (size_t)n);
  else if (out == MR_F32)
    hwc ? hwc_floats(t, src, n, true, dst) : chw_floats(t, src, n, true, dst);
  else
    hwc ? hwc_floats(t, src, n, false, dst) : chw_floats(t, src, n, false, dst);
}

AVX2 int mr__norm_pixels_avx2(const mr_norm_t *t, const uint8_t *src, int n, float *dst) {
  const lanes_t l[3] = {turning(t, 0), turning(t, 2), turning(t, 1)}; /* of channels 8 i mod 3 */
  int k = 0;
  for (; k + 8 <= n; k += 8, src += 24, dst += 24)
    for (int i = 0; i < 3; i++)
      store8(_mm_loadl_epi64((const __m128i *)(src + 8 * i)), &l[i], true, dst, 8 * i);
  return k;
}

#else

void mr__norm_avx2(const mr_norm_t *t, const uint8_t *src, int n, bool hwc, mr_dtype_t out,
                   void *dst) {
  assert(!"t->avx2 is false on this machine");
}

int mr__norm_pixels_avx2(const mr_norm_t *t, const uint8_t *src, int n, float *dst) {
  assert(!"t->avx2 is false on this machine");
  return 0;
}

#endif
