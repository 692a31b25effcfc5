/* The passes with AVX-512's dot products of bytes (VNNI).  A weight q of 22 bits is
   q0 + 256 q1 + 65536 q2 with signed bytes q0, q1 and q2, so that three dot products of four pixels
   give the same 32-bit sums as the plain passes. */
#include <string.h>

#include "stages/resample.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))

enum { BITS = 22, ROWS = 4 };

bool mr__resample_has_vnni(void) { return __builtin_cpu_supports("avx512vnni"); }

#define INLINE VNNI static inline __attribute__((always_inline))

/* Adds up to four products a lane by weights q[3][4]. */
INLINE void add_products(__m512i sum[3], __m512i v, const int8_t *q) {
  for (int i = 0; i < 3; i++) {
    int32_t four;
    memcpy(&four, q + 4 * i, sizeof four);
    sum[i] = _mm512_dpbusd_epi32(sum[i], v, _mm512_set1_epi32(four));
  }
}

INLINE __m512i whole_sum(const __m512i sum[3]) {
  __m512i upper = _mm512_add_epi32(_mm512_slli_epi32(sum[2], 16), _mm512_slli_epi32(sum[1], 8));
  return _mm512_srai_epi32(_mm512_add_epi32(sum[0], upper), BITS);
}

INLINE void no_sums(__m512i sum[3]) {
  sum[0] = _mm512_set1_epi32(1 << (BITS - 1)), sum[1] = sum[2] = _mm512_setzero_si512();
}

/* ---- down ---- */

/* Those of 64 bytes that `some` has, of one output row. */
INLINE __m512i down_64(const uint8_t *from, size_t stride, const int8_t *q, int taps,
                       __mmask64 some) {
  __m512i sum[4][3], v[ROWS];
  for (int i = 0; i < 4; i++) no_sums(sum[i]);
  for (int k = 0; k < taps; k += ROWS, q += 3 * ROWS) {
    for (int i = 0; i < ROWS; i++) /* rows behind the last have no weight */
      v[i] =
          _mm512_maskz_loadu_epi8(some, from + (size_t)(k + i < taps ? k + i : taps - 1) * stride);
    __m512i lo[2] = {_mm512_unpacklo_epi8(v[0], v[1]), _mm512_unpacklo_epi8(v[2], v[3])},
            hi[2] = {_mm512_unpackhi_epi8(v[0], v[1]), _mm512_unpackhi_epi8(v[2], v[3])};
    add_products(sum[0], _mm512_unpacklo_epi16(lo[0], lo[1]), q);
    add_products(sum[1], _mm512_unpackhi_epi16(lo[0], lo[1]), q);
    add_products(sum[2], _mm512_unpacklo_epi16(hi[0], hi[1]), q);
    add_products(sum[3], _mm512_unpackhi_epi16(hi[0], hi[1]), q);
  }
  __m512i a = _mm512_packs_epi32(whole_sum(sum[0]), whole_sum(sum[1])),
          b = _mm512_packs_epi32(whole_sum(sum[2]), whole_sum(sum[3]));
  return _mm512_packus_epi16(a, b);
}

VNNI void mr__resample_down_vnni(const mr_weights_t *t, int base, mr_part_t src, size_t bytes,
                                 uint8_t *dst) {
  for (int y = 0; y < t->n; y++, dst += bytes) {
    const uint8_t *from = src.data + (size_t)(t->first[y] - base) * src.stride;
    const int8_t *q = t->bytes + 3 * (size_t)y * (size_t)t->taps;
    for (size_t x = 0; x < bytes; x += 64) {
      __mmask64 some = bytes - x < 64 ? (1ull << (bytes - x)) - 1 : ~0ull;
      _mm512_mask_storeu_epi8(dst + x, some, down_64(from + x, src.stride, q, t->count[y], some));
    }
  }
}

/* ---- across: four rows at a time share the weights ---- */

/* The sums of one pixel in four rows: a lane each, of 32 bits for each channel. */
INLINE __m512i across_four(const uint8_t *const row[4], size_t at, const int8_t *q, int taps) {
  const __m512i pick =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11, -1, -1, -1, -1));
  __m512i sum[3];
  no_sums(sum);
  for (int k = 0; k < taps; k += 4, at += 12, q += 12) {
    __m512i v = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(row[0] + at)));
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(row[1] + at)), 1);
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(row[2] + at)), 2);
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(row[3] + at)), 3);
    v = _mm512_shuffle_epi8(v, pick);
    add_products(sum, v, q);
  }
  return whole_sum(sum);
}

/* The same of pixel x. */
INLINE __m512i across_pixel(const mr_weights_t *t, int base, const uint8_t *const row[4], int x) {
  const int8_t *q = t->bytes + 3 * (size_t)x * (size_t)t->taps;
  return across_four(row, 3 * (size_t)(t->first[x] - base), q, t->count[x]);
}

/* Pixels [x,x+4) of the rows.  over: 16 bytes are written for 12, and later pixels overwrite the
   others; that is much faster than 12. */
INLINE void across_sixteen(const mr_weights_t *t, int base, const uint8_t *const row[4], int rows,
                           int x, bool over, uint8_t *dst) {
  const __m512i close =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
  size_t bytes = 3 * (size_t)t->n, each = over ? 16 : 12;
  __m512i v[4];
  for (int i = 0; i < 4; i++) v[i] = across_pixel(t, base, row, x + i);
  v[0] = _mm512_packus_epi16(_mm512_packs_epi32(v[0], v[1]), _mm512_packs_epi32(v[2], v[3]));
  v[0] = _mm512_shuffle_epi8(v[0], close);
  __m128i lane[ROWS] = {_mm512_castsi512_si128(v[0]), _mm512_extracti32x4_epi32(v[0], 1),
                        _mm512_extracti32x4_epi32(v[0], 2), _mm512_extracti32x4_epi32(v[0], 3)};
  for (int k = 0; k < rows; k++) memcpy(dst + (size_t)k * bytes + 3 * x, &lane[k], each);
}

/* All pixels of up to four rows. */
INLINE void across_rows(const mr_weights_t *t, int base, const uint8_t *const row[4], int rows,
                        uint8_t *dst) {
  int x = 0;
  for (; x + 6 <= t->n; x += 4) across_sixteen(t, base, row, rows, x, true, dst);
  for (; x + 4 <= t->n; x += 4) across_sixteen(t, base, row, rows, x, false, dst);
  for (; x < t->n; x++) {
    __m512i v = across_pixel(t, base, row, x);
    int32_t pixel[ROWS * 4] __attribute__((aligned(64)));
    _mm512_store_si512(pixel, _mm512_packus_epi16(_mm512_packs_epi32(v, v), v));
    for (int k = 0; k < rows; k++)
      memcpy(dst + 3 * ((size_t)k * (size_t)t->n + (size_t)x), &pixel[4 * k], 3);
  }
}

VNNI void mr__resample_across_vnni(const mr_weights_t *t, int base, mr_part_t src, int h,
                                   uint8_t *dst) {
  for (int y = 0; y < h; y += ROWS, dst += 3 * ROWS * (size_t)t->n) {
    const uint8_t *row[ROWS];
    int rows = h - y < ROWS ? h - y : ROWS;
    for (int k = 0; k < ROWS; k++)
      row[k] = src.data + (size_t)(y + (k < rows ? k : rows - 1)) * src.stride;
    if (rows == ROWS)
      across_rows(t, base, row, ROWS, dst);
    else
      across_rows(t, base, row, rows, dst);
  }
}
#else
bool mr__resample_has_vnni(void) { return false; }
void mr__resample_down_vnni(const mr_weights_t *t, int base, mr_part_t src, size_t bytes,
                            uint8_t *dst) {
  mr__resample_down(t, base, src, bytes, dst);
}
void mr__resample_across_vnni(const mr_weights_t *t, int base, mr_part_t src, int h, uint8_t *dst) {
  mr__resample_across(t, base, src, 3, h, dst);
}
#endif
