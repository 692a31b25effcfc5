/* Normalises planes to bf16 by tables: 256 results of two bytes fill eight registers, in which VBMI
   looks up 64 with a few permutes; arithmetic and rounding would take twice as long. */
#include <assert.h>

#include "stages/norm.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")))
#define INLINE AVX512 static inline __attribute__((always_inline))

/* One channel's results: lower bytes, then upper ones. */
typedef struct answers {
  __m512i part[2][4];
} answers_t;

INLINE answers_t load_answers(const mr_norm_t *t, int c) {
  answers_t a;
  for (int h = 0; h < 2; h++)
    for (int k = 0; k < 4; k++) a.part[h][k] = _mm512_loadu_si512(t->half16[c][h] + 64 * k);
  return a;
}

/* Looks up 64 of 256 bytes: two permutes of two registers each; the index's highest bit chooses. */
INLINE __m512i look_up(const __m512i part[4], __m512i at) {
  __m512i low = _mm512_permutex2var_epi8(part[0], at, part[1]);
  __m512i high = _mm512_permutex2var_epi8(part[2], at, part[3]);
  return _mm512_mask_blend_epi8(_mm512_movepi8_mask(at), low, high);
}

/* Numbers of 64 bytes, in order.  Unpacking works within 128-bit lanes, so the quarters of the
   bytes are permuted first. */
INLINE void numbers64(const answers_t *a, __m512i bytes, __m512i out[2]) {
  bytes = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7), bytes);
  __m512i low = look_up(a->part[0], bytes), high = look_up(a->part[1], bytes);
  out[0] = _mm512_unpacklo_epi8(low, high);
  out[1] = _mm512_unpackhi_epi8(low, high);
}

/* Loads the next 32 or 64 bytes of a plane. */
INLINE __m512i load(const uint8_t *src, int left) {
  return _mm512_maskz_loadu_epi8(left < 64 ? 0xFFFFFFFFu : ~0ull, src);
}

AVX512 static void norm_bf16_chw(const mr_norm_t *t, const uint8_t *src, int n, mr_bf16_t *dst) {
  for (int c = 0; c < 3; c++, src += n, dst += n) {
    const answers_t a = load_answers(t, c);
    for (int k = 0; k < n; k += 64) {
      __m512i out[2];
      numbers64(&a, load(src + k, n - k), out);
      _mm512_storeu_si512(dst + k, out[0]);
      if (n - k >= 64) _mm512_storeu_si512(dst + k + 32, out[1]);
    }
  }
}

/* Word k of vector v of interleaved numbers is pixel (32v+k)/3 of channel (32v+k)%3: first from r
   and g (g from 32 on), then from that and b. */
typedef struct places {
  __m512i rg[3], b[3];
} places_t;

AVX512 static places_t make_places(void) {
  places_t p;
  for (int v = 0; v < 3; v++) {
    uint16_t rg[32], b[32];
    for (int k = 0; k < 32; k++) {
      int pixel = (32 * v + k) / 3, c = (32 * v + k) % 3;
      rg[k] = (uint16_t)(c == 1 ? 32 + pixel : pixel);
      b[k] = (uint16_t)(c == 2 ? 32 + pixel : k);
    }
    p.rg[v] = _mm512_loadu_si512(rg), p.b[v] = _mm512_loadu_si512(b);
  }
  return p;
}

INLINE void store_interleaved(const places_t *p, __m512i r, __m512i g, __m512i b, mr_bf16_t *dst) {
  for (int v = 0; v < 3; v++) {
    __m512i rg = _mm512_permutex2var_epi16(r, p->rg[v], g);
    _mm512_storeu_si512(dst + 32 * v, _mm512_permutex2var_epi16(rg, p->b[v], b));
  }
}

/* In blocks of 256 pixels: a channel's results stay in registers, its numbers in the cache. */
AVX512 static void norm_bf16_hwc(const mr_norm_t *t, const uint8_t *src, int n, mr_bf16_t *dst) {
  enum { BLOCK = 256 };
  const places_t p = make_places();
  __m512i number[3][BLOCK / 32];
  for (int k = 0; k < n; k += BLOCK) {
    int some = n - k < BLOCK ? n - k : BLOCK;
    for (int c = 0; c < 3; c++) {
      const answers_t a = load_answers(t, c);
      for (int i = 0; i < some; i += 64)
        numbers64(&a, load(src + c * n + k + i, some - i), &number[c][i / 32]);
    }
    for (int i = 0; i < some / 32; i++)
      store_interleaved(&p, number[0][i], number[1][i], number[2][i], dst + 3 * (k + 32 * i));
  }
}

AVX512 void mr__norm_bf16_avx512(const mr_norm_t *t, const uint8_t *src, int n, bool is_hwc,
                                 void *dst) {
  (is_hwc ? norm_bf16_hwc : norm_bf16_chw)(t, src, n, dst);
}

#else

void mr__norm_bf16_avx512(const mr_norm_t *t, const uint8_t *src, int n, bool is_hwc, void *dst) {
  assert(!"t->avx512 is false on this machine");
}

#endif
