/* Normalises planes with AVX-512 and VBMI: one byte permute interleaves sixteen bytes and widens
   them, and the constants of all three phases stay in registers. */
#include <assert.h>

#include "stages/norm.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")))
#define INLINE AVX512 static inline __attribute__((always_inline))

/* Every fourth byte of a vector: the lowest of each 32-bit element. */
static const __mmask64 LOWEST = 0x1111111111111111u;

/* Constants for sixteen neighbours: of one channel, or interleaved from channel `phase` on. */
typedef struct lanes {
  __m512 mean, inv, rest;
} lanes_t;

INLINE lanes_t turning(const mr_norm_t *t, int phase) {
  return (lanes_t){_mm512_loadu_ps(t->turn[0] + phase), _mm512_loadu_ps(t->turn[1] + phase),
                   _mm512_loadu_ps(t->turn[2] + phase)};
}

INLINE lanes_t steady(const mr_norm_t *t, int c) {
  return (lanes_t){_mm512_set1_ps(t->mean[c]), _mm512_set1_ps(t->inv[c]),
                   _mm512_set1_ps(t->rest[c])};
}

INLINE __m512 divided(__m512 x, __m512 inv, __m512 rest) {
  return _mm512_fmadd_ps(x, inv, _mm512_mul_ps(x, rest));
}

/* Normalises sixteen bytes in 32-bit elements. */
INLINE __m512 number(__m512i bytes, const lanes_t *l) {
  __m512 x = _mm512_cvtepi32_ps(bytes);
  x = divided(x, _mm512_set1_ps(MR_NORM_INV), _mm512_set1_ps(MR_NORM_REST));
  return divided(_mm512_sub_ps(x, l->mean), l->inv, l->rest);
}

/* Indices of sixteen interleaved bytes, from 16v on, in 16 of r, then 16 of g, then 16 of b. */
#define AT(k) (k) % 3 * 16 + (k) / 3, 0, 0, 0
#define AT4(k) AT(k), AT(k + 1), AT(k + 2), AT(k + 3)
#define AT16(k) AT4(k), AT4(k + 4), AT4(k + 8), AT4(k + 12)
static const uint8_t place[3][64] = {{AT16(0)}, {AT16(16)}, {AT16(32)}};

/* Makes three vectors of interleaved numbers from sixteen pixels. */
INLINE void numbers48(const uint8_t *src, int n, const lanes_t l[3], __m512 out[3]) {
  __m128i r = _mm_loadu_si128((const __m128i *)src);
  __m128i g = _mm_loadu_si128((const __m128i *)(src + n));
  __m128i b = _mm_loadu_si128((const __m128i *)(src + 2 * n));
  __m256i rg = _mm256_inserti128_si256(_mm256_castsi128_si256(r), g, 1);
  __m512i px = _mm512_inserti32x4(_mm512_castsi256_si512(rg), b, 2);
  for (int v = 0; v < 3; v++)
    out[v] = number(_mm512_maskz_permutexvar_epi8(LOWEST, _mm512_loadu_si512(place[v]), px), &l[v]);
}

INLINE void hwc_floats(const mr_norm_t *t, const uint8_t *src, int n, float *dst) {
  const lanes_t l[3] = {turning(t, 0), turning(t, 1), turning(t, 2)};
  for (int k = 0; k < n; k += 16, dst += 48) {
    __m512 v[3];
    numbers48(src + k, n, l, v);
    for (int i = 0; i < 3; i++) _mm512_storeu_ps(dst + 16 * i, v[i]);
  }
}

INLINE void chw_floats(const mr_norm_t *t, const uint8_t *src, int n, float *dst) {
  for (int c = 0; c < 3; c++) {
    const lanes_t l = steady(t, c);
    for (int at = c * n; at < (c + 1) * n; at += 16) {
      __m128i bytes = _mm_loadu_si128((const __m128i *)(src + at));
      _mm512_storeu_ps(dst + at, number(_mm512_cvtepu8_epi32(bytes), &l));
    }
  }
}

AVX512 void mr__norm_avx512(const mr_norm_t *t, const uint8_t *src, int n, bool hwc, float *dst) {
  hwc ? hwc_floats(t, src, n, dst) : chw_floats(t, src, n, dst);
}

AVX512 int mr__norm_pixels_avx512(const mr_norm_t *t, const uint8_t *src, int n, float *dst) {
  const lanes_t l[3] = {turning(t, 0), turning(t, 1), turning(t, 2)};
  int k = 0;
  for (; k + 16 <= n; k += 16, src += 48, dst += 48)
    for (int i = 0; i < 3; i++) { /* the vector begins with channel 16 i mod 3, which is i */
      __m128i bytes = _mm_loadu_si128((const __m128i *)(src + 16 * i));
      _mm512_storeu_ps(dst + 16 * i, number(_mm512_cvtepu8_epi32(bytes), &l[i]));
    }
  return k;
}

bool mr__norm_has_avx512(void) { return __builtin_cpu_supports("avx512vbmi"); }

#else

void mr__norm_avx512(const mr_norm_t *t, const uint8_t *src, int n, bool hwc, float *dst) {
  assert(!"t->avx512 is false on this machine");
}

int mr__norm_pixels_avx512(const mr_norm_t *t, const uint8_t *src, int n, float *dst) {
  assert(!"t->avx512 is false on this machine");
  return 0;
}

bool mr__norm_has_avx512(void) { return false; }

#endif
