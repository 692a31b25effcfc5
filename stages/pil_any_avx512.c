/* Passes of any size and number of taps with AVX-512 (VBMI and VNNI): as pil_avx512.c, in blocks of
   16 pixels and pairs of taps.  Masks keep every load and store inside of rows. */
#include <assert.h>
#include <string.h>

#include "stages/pil_resize.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni,bmi2")))
#define INLINE AVX512 static inline __attribute__((always_inline))

/* Every second byte of a vector: the lower one of each 16-bit element. */
static const __mmask64 LOWER = 0x5555555555555555u;

INLINE __mmask64 bytes(int n) { return n > 0 ? _bzhi_u64(~0ull, n < 64 ? (unsigned)n : 64) : 0; }

/* Loads a pair of taps of 16 pixels from the `left` remaining bytes of a row. */
INLINE __m512i pair(const uint8_t *row, int left, __m512i pick, bool narrow) {
  __m512i a = _mm512_maskz_loadu_epi8(bytes(left), row);
  if (narrow) return _mm512_maskz_permutexvar_epi8(LOWER, pick, a);
  __m512i b = _mm512_maskz_loadu_epi8(bytes(left - 64), row + 64);
  return _mm512_maskz_permutex2var_epi8(LOWER, a, pick, b);
}

INLINE __m512i total(__m512i high, __m512i low) {
  return _mm512_add_epi32(_mm512_slli_epi32(high, 12), low);
}

INLINE void store16(uint8_t *dst, __m512i sum) {
  _mm_storeu_si128((__m128i *)dst, _mm512_cvtepi32_epi8(_mm512_srli_epi32(sum, 24)));
}

/* One block in h rows, if no pixel has a third tap. */
AVX512 static void row_block_two(const mr_pil_any_t *t, int b, const uint8_t *row, int stride,
                                 int h, int left, uint8_t *dst, int out) {
  const __m512i pick = _mm512_loadu_si512(t->pick + 64 * b), half = _mm512_set1_epi32(1 << 23);
  const __m512i high = _mm512_loadu_si512(t->high + 32 * b),
                low = _mm512_loadu_si512(t->low + 32 * b);
  for (int y = 0; y < h; y++, row += stride, dst += out) {
    __m512i v = pair(row, left, pick, true);
    store16(dst, total(_mm512_madd_epi16(v, high), _mm512_dpwssd_epi32(half, v, low)));
  }
}

INLINE void row_block(const mr_pil_any_t *t, int b, const uint8_t *row, int stride, int h, int left,
                      uint8_t *dst, int out, bool narrow) {
  const __m512i pick = _mm512_loadu_si512(t->pick + 64 * b);
  const int16_t *high = t->high + 32 * t->pairs * b, *low = t->low + 32 * t->pairs * b;
  for (int y = 0; y < h; y++, row += stride, dst += out) {
    __m512i sums = _mm512_setzero_si512(), rest = _mm512_set1_epi32(1 << 23);
    for (int j = 0; j < t->pairs; j++) {
      __m512i v = pair(row + 2 * j, left - 2 * j, pick, narrow);
      sums = _mm512_dpwssd_epi32(sums, v, _mm512_loadu_si512(high + 32 * j));
      rest = _mm512_dpwssd_epi32(rest, v, _mm512_loadu_si512(low + 32 * j));
    }
    store16(dst, total(sums, rest));
  }
}

AVX512 static void pil_any_avx512_row_passes(const mr_pil_pass_t *pass, int out, const uint8_t *src,
                                             int stride, int h, int w, uint8_t *dst) {
  const mr_pil_any_t *t = pass->any;
  for (int b = 0; b < t->blocks; b++) {
    int x = mr__pil_any_at(b, out), at = pass->first[x];
    if (t->pairs == 1 && t->narrow)
      row_block_two(t, b, src + at, stride, h, w - at, dst + x, out);
    else if (t->narrow)
      row_block(t, b, src + at, stride, h, w - at, dst + x, out, true);
    else
      row_block(t, b, src + at, stride, h, w - at, dst + x, out, false);
  }
}

INLINE __m512i both(const int16_t *weights) {
  int32_t word;
  memcpy(&word, weights, sizeof word);
  return _mm512_set1_epi32(word);
}

/* Indices of a pixel and the one 32 after it, at every second byte: pixels 0-15, then 16-31. */
#define PAIR(k) (k), 0, 32 + (k), 0
#define PAIRS(k) PAIR(k), PAIR(k + 1), PAIR(k + 2), PAIR(k + 3)
static const uint8_t below[2][64] = {{PAIRS(0), PAIRS(4), PAIRS(8), PAIRS(12)},
                                     {PAIRS(16), PAIRS(20), PAIRS(24), PAIRS(28)}};

/* Indices of the upper bytes of 32 sums in two vectors. */
static const uint8_t upper[64] = {3,  7,  11, 15,  19,  23,  27,  31,  35,  39, 43,
                                  47, 51, 55, 59,  63,  67,  71,  75,  79,  83, 87,
                                  91, 95, 99, 103, 107, 111, 115, 119, 123, 127};

/* Up to 32 pixels of an output row over `taps` rows; high and low advance by 32 from pair to
   pair. */
INLINE __m256i column_block(const uint8_t *src, int stride, int taps, const int16_t *high,
                            const int16_t *low, __mmask32 mask) {
  const __m512i pick0 = _mm512_loadu_si512(below[0]), pick1 = _mm512_loadu_si512(below[1]);
  __m512i s0 = _mm512_setzero_si512(), s1 = s0, r0 = _mm512_set1_epi32(1 << 23), r1 = r0;
  for (int k = 0; k < taps; k += 2, src += 2 * stride, high += 32, low += 32) {
    __m256i a = _mm256_maskz_loadu_epi8(mask, src);
    __m256i b = _mm256_maskz_loadu_epi8(mask, k + 1 < taps ? src + stride : src);
    __m512i px = _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
    __m512i v0 = _mm512_maskz_permutexvar_epi8(LOWER, pick0, px);
    __m512i v1 = _mm512_maskz_permutexvar_epi8(LOWER, pick1, px);
    s0 = _mm512_dpwssd_epi32(s0, v0, both(high)), r0 = _mm512_dpwssd_epi32(r0, v0, both(low));
    s1 = _mm512_dpwssd_epi32(s1, v1, both(high)), r1 = _mm512_dpwssd_epi32(r1, v1, both(low));
  }
  __m512i all = _mm512_permutex2var_epi8(total(s0, r0), _mm512_loadu_si512(upper), total(s1, r1));
  return _mm512_castsi512_si256(all);
}

/* Resizes columns, in rows of `width` pixels. */
AVX512 static void pil_any_avx512_column_passes(const mr_pil_pass_t *pass, int out,
                                                const uint8_t *src, int stride, int width,
                                                uint8_t *dst) {
  const mr_pil_any_t *t = pass->any;
  for (int y = 0; y < out; y++, dst += width) {
    int b = y / 16, at = 32 * t->pairs * b + 2 * (y - mr__pil_any_at(b, out));
    const uint8_t *row = src + pass->first[y] * stride;
    for (int x = 0; x < width; x += 32) {
      __mmask32 mask = (__mmask32)bytes(width - x);
      __m256i v = column_block(row + x, stride, pass->count[y], t->high + at, t->low + at, mask);
      _mm256_mask_storeu_epi8(dst + x, mask, v);
    }
  }
}

AVX512 void mr__pil_any_avx512(const mr_pil_t *p, const uint8_t *src, int C, int H, int W,
                               mr_box_t b, uint8_t *dst, uint8_t *scratch) {
  int out = p->out;
  bool down_first = mr__pil_down_first(p, b);
  for (int c = 0; c < C; c++, dst += out * out) {
    const uint8_t *rows = src + (c * H + b.i) * W + b.j;
    int stride = W;
    if (down_first) {
      pil_any_avx512_column_passes(&p->pass[b.h], out, rows, W, b.w, scratch);
      pil_any_avx512_row_passes(&p->pass[b.w], out, scratch, b.w, out, b.w, dst);
      continue;
    }
    if (b.w != out) {
      uint8_t *to = b.h == out ? dst : scratch;
      pil_any_avx512_row_passes(&p->pass[b.w], out, rows, W, b.h, b.w, to);
      rows = to, stride = out;
    }
    if (b.h != out)
      pil_any_avx512_column_passes(&p->pass[b.h], out, rows, stride, out, dst);
    else if (b.w == out)
      for (int y = 0; y < out; y++) memcpy(dst + y * out, rows + y * W, (size_t)out);
  }
}

#else

void mr__pil_any_avx512(const mr_pil_t *p, const uint8_t *src, int C, int H, int W, mr_box_t b,
                        uint8_t *dst, uint8_t *scratch) {
  assert(!"p->any512 is false on this machine");
}

#endif
