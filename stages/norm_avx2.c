/* Planes to normalised interleaved floats with AVX2: bytes are interleaved first, while they are
   small, and divisions become multiplications that were checked to give the same bits. */
#include <assert.h>

#include "stages/norm.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define AVX2 __attribute__((target("avx2,fma")))

/* Eight neighbours of an interleaved picture, the first of channel `phase`. */
typedef struct lanes {
  __m256 mean, std, inv;
} lanes_t;

AVX2 static lanes_t lanes_of(const mr_norm_t *t, int phase) {
  float m[8], s[8], v[8];
  for (int k = 0; k < 8; k++) {
    int c = (phase + k) % 3;
    m[k] = t->mean[c], s[k] = t->std[c], v[k] = t->inv_std[c];
  }
  return (lanes_t){_mm256_loadu_ps(m), _mm256_loadu_ps(s), _mm256_loadu_ps(v)};
}

AVX2 static inline __m256 divided(__m256 x, __m256 y, __m256 inv) {
  __m256 q = _mm256_mul_ps(x, inv);
  return _mm256_fmadd_ps(_mm256_fnmadd_ps(y, q, x), inv, q);
}

AVX2 static inline void store8(__m128i bytes, const lanes_t *l, float *dst) {
  __m256 x = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
  x = divided(x, _mm256_set1_ps(255.0f), _mm256_set1_ps(1.0f / 255.0f));
  _mm256_storeu_ps(dst, divided(_mm256_sub_ps(x, l->mean), l->std, l->inv));
}

/* Sixteen interleaved bytes from channels r, g, b; masks say which byte goes where. */
AVX2 static inline __m128i interleave(__m128i r, __m128i g, __m128i b, const __m128i *mask) {
  __m128i rg = _mm_or_si128(_mm_shuffle_epi8(r, mask[0]), _mm_shuffle_epi8(g, mask[1]));
  return _mm_or_si128(rg, _mm_shuffle_epi8(b, mask[2]));
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

AVX2 void mr__norm_hwc_avx2(const mr_norm_t *t, const uint8_t *src, int n, float *dst) {
  const lanes_t l0 = lanes_of(t, 0), l1 = lanes_of(t, 1), l2 = lanes_of(t, 2);
  __m128i mask[3][3];
  interleave_masks(mask);
  for (int k = 0; k < n; k += 16, dst += 48) {
    __m128i r = _mm_loadu_si128((const __m128i *)(src + k));
    __m128i g = _mm_loadu_si128((const __m128i *)(src + n + k));
    __m128i b = _mm_loadu_si128((const __m128i *)(src + 2 * n + k));
    __m128i v0 = interleave(r, g, b, mask[0]), v1 = interleave(r, g, b, mask[1]);
    __m128i v2 = interleave(r, g, b, mask[2]);
    store8(v0, &l0, dst), store8(_mm_srli_si128(v0, 8), &l2, dst + 8);
    store8(v1, &l1, dst + 16), store8(_mm_srli_si128(v1, 8), &l0, dst + 24);
    store8(v2, &l2, dst + 32), store8(_mm_srli_si128(v2, 8), &l1, dst + 40);
  }
}

#else

void mr__norm_hwc_avx2(const mr_norm_t *t, const uint8_t *src, int n, float *dst) {
  assert(!"t->avx2 is false on this machine");
}

#endif
