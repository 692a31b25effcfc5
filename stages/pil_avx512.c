/* Two-tap passes of pictures 32 pixels wide with AVX-512 (VBMI and VNNI).

   A weight of 22 bits times 4 is high*2^12 + low, so that the exact, rounded 32-bit sum has the
   pixel in its upper byte: no shift is needed, and one byte permute packs 32 of them.  Another
   permute brings both taps of 16 pixels into the 16-bit elements of a dot product. */
#include <assert.h>
#include <string.h>

#include "stages/pil_resize.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni")))

/* Every second byte of a vector: the lower one of each 16-bit element. */
static const __mmask64 LOWER = 0x5555555555555555u;

/* Sixteen exact sums of two pixels times their weights, rounded. */
AVX512 static inline __m512i weigh_16(__m512i pair, __m512i high, __m512i low) {
  __m512i h = _mm512_slli_epi32(_mm512_madd_epi16(pair, high), 12);
  return _mm512_add_epi32(_mm512_dpwssd_epi32(_mm512_set1_epi32(1 << 23), pair, low), h);
}

/* The upper bytes of 32 sums. */
AVX512 static inline __m256i upper_bytes(__m512i a, __m512i b, __m512i place) {
  return _mm512_castsi512_si256(_mm512_permutex2var_epi8(a, place, b));
}

/* Indices of the upper bytes of 32 sums in two vectors. */
static const uint8_t upper[64] = {3,  7,  11, 15,  19,  23,  27,  31,  35,  39, 43,
                                  47, 51, 55, 59,  63,  67,  71,  75,  79,  83, 87,
                                  91, 95, 99, 103, 107, 111, 115, 119, 123, 127};

/* Indices of a pixel and the one 32 after it, at every second byte: pixels 0-15, then 16-31. */
#define PAIR(k) (k), 0, 32 + (k), 0
#define PAIRS(k) PAIR(k), PAIR(k + 1), PAIR(k + 2), PAIR(k + 3)
static const uint8_t below[2][64] = {{PAIRS(0), PAIRS(4), PAIRS(8), PAIRS(12)},
                                     {PAIRS(16), PAIRS(20), PAIRS(24), PAIRS(28)}};

/* Resizes h rows of w pixels, 32 apart; reads nothing outside of a row. */
AVX512 static void pil_avx512_row_passes(const mr_pil_pass_t *t, const uint8_t *src, int h, int w,
                                         uint8_t *dst) {
  const mr_pil_wide_t *v = t->wide;
  const __mmask64 row = ((__mmask64)1 << w) - 1;
  const __m512i pick0 = _mm512_loadu_si512(v->pick[0]), pick1 = _mm512_loadu_si512(v->pick[1]);
  const __m512i high0 = _mm512_loadu_si512(v->high), high1 = _mm512_loadu_si512(v->high + 32);
  const __m512i low0 = _mm512_loadu_si512(v->low), low1 = _mm512_loadu_si512(v->low + 32);
  const __m512i place = _mm512_loadu_si512(upper);
  for (int y = 0; y < h; y++, src += 32, dst += 32) {
    __m512i pixels = _mm512_maskz_loadu_epi8(row, src);
    __m512i a = weigh_16(_mm512_maskz_permutexvar_epi8(LOWER, pick0, pixels), high0, low0);
    __m512i b = weigh_16(_mm512_maskz_permutexvar_epi8(LOWER, pick1, pixels), high1, low1);
    _mm256_storeu_si256((__m256i *)dst, upper_bytes(a, b, place));
  }
}

AVX512 static inline __m512i pil_avx512_both(const int16_t *pair) {
  int32_t word;
  memcpy(&word, pair, sizeof word);
  return _mm512_set1_epi32(word);
}

/* Resizes h consecutive rows of 32 pixels to 32 rows.  A pixel with one tap takes the row below as
   its second, with a weight of 0; that row may be beyond the last one and is then not loaded. */
AVX512 static void pil_avx512_column_pass(const mr_pil_pass_t *t, const uint8_t *src, int h,
                                          uint8_t *dst) {
  const mr_pil_wide_t *v = t->wide;
  const __m512i place = _mm512_loadu_si512(upper);
  const __m512i pick0 = _mm512_loadu_si512(below[0]), pick1 = _mm512_loadu_si512(below[1]);
  for (int y = 0; y < 32; y++, dst += 32) {
    __mmask64 rows = t->first[y] + 1 < h ? ~(__mmask64)0 : 0xFFFFFFFFu;
    __m512i pixels = _mm512_maskz_loadu_epi8(rows, src + t->first[y] * 32);
    __m512i high = pil_avx512_both(v->high + 2 * y), low = pil_avx512_both(v->low + 2 * y);
    __m512i a = weigh_16(_mm512_maskz_permutexvar_epi8(LOWER, pick0, pixels), high, low);
    __m512i b = weigh_16(_mm512_maskz_permutexvar_epi8(LOWER, pick1, pixels), high, low);
    _mm256_storeu_si256((__m256i *)dst, upper_bytes(a, b, place));
  }
}

AVX512 void mr__pil_crop_avx512(const mr_pil_t *p, const uint8_t *src, int C, int H, mr_box_t b,
                                uint8_t *dst, uint8_t *scratch) {
  for (int c = 0; c < C; c++, dst += 1024) {
    const uint8_t *rows = src + (c * H + b.i) * 32 + b.j;
    if (b.w != 32) {
      uint8_t *to = b.h == 32 ? dst : scratch;
      pil_avx512_row_passes(&p->pass[b.w], rows, b.h, b.w, to);
      rows = to;
    }
    if (b.h != 32) {
      pil_avx512_column_pass(&p->pass[b.h], rows, b.h, dst);
    } else if (b.w == 32) {
      memcpy(dst, rows, 1024);
    }
  }
}

bool mr__pil_has_avx512(void) {
  return __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni");
}

#else

void mr__pil_crop_avx512(const mr_pil_t *p, const uint8_t *src, int C, int H, mr_box_t b,
                         uint8_t *dst, uint8_t *scratch) {
  assert(!"p->avx512 is false on this machine");
}

bool mr__pil_has_avx512(void) { return false; }

#endif
