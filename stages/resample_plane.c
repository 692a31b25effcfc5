/* One channel resized down and then across, both by the pass down: between them and after the
   second the plane is turned about its diagonal. */
#include <string.h>

#include "stages/resample.h"

enum { TILE = 16 };

static void turn_plain(const uint8_t *src, size_t stride, size_t h, size_t w, uint8_t *dst,
                       size_t to_stride) {
  for (size_t y = 0; y < h; y++)
    for (size_t x = 0; x < w; x++) dst[x * to_stride + y] = src[y * stride + x];
}

#if defined(__x86_64__)
#include <emmintrin.h>

/* Sixteen rows of sixteen bytes.  Four rounds of interleaving row k with row k + 8 turn them. */
static void turn_tile(const uint8_t *src, size_t stride, uint8_t *dst, size_t to_stride) {
  __m128i a[TILE], b[TILE];
  for (size_t k = 0; k < TILE; k++) a[k] = _mm_loadu_si128((const __m128i *)(src + k * stride));
  for (int round = 0; round < 4; round++) {
    for (int k = 0; k < TILE / 2; k++) {
      b[2 * k] = _mm_unpacklo_epi8(a[k], a[k + TILE / 2]);
      b[2 * k + 1] = _mm_unpackhi_epi8(a[k], a[k + TILE / 2]);
    }
    memcpy(a, b, sizeof a);
  }
  for (size_t k = 0; k < TILE; k++) _mm_storeu_si128((__m128i *)(dst + k * to_stride), a[k]);
}
#else
static void turn_tile(const uint8_t *src, size_t stride, uint8_t *dst, size_t to_stride) {
  turn_plain(src, stride, TILE, TILE, dst, to_stride);
}
#endif

/* (h,w) at src to (w,h) at dst. */
static void resample_turn(const uint8_t *src, size_t stride, size_t h, size_t w, uint8_t *dst) {
  size_t y = 0;
  for (; y + TILE <= h; y += TILE) {
    size_t x = 0;
    for (; x + TILE <= w; x += TILE) turn_tile(src + y * stride + x, stride, dst + x * h + y, h);
    turn_plain(src + y * stride + x, stride, TILE, w - x, dst + x * h + y, h);
  }
  turn_plain(src + y * stride, stride, h - y, w, dst + y, h);
}

mr_err_t mr_resample_plane(mr_resampler_t *r, const mr_span_t *down, const mr_span_t *across,
                           mr_part_t src, int top, int left, uint8_t *dst, mr_diag_t *diag) {
  MR_TRY(mr__resample_span(down, &r->memory[0], &r->down, diag));
  MR_TRY(mr__resample_span(across, &r->memory[1], &r->across, diag));
  int last = across->n - 1, from = r->across.first[0];
  size_t w = (size_t)(r->across.first[last] + r->across.count[last] - from), h = (size_t)down->n;
  size_t n = (size_t)across->n, most = w > n ? w : n;
  MR_TRY(mr_grow(&r->rows, h * most, diag));
  MR_TRY(mr_grow(&r->turned, h * most, diag));
  src.data += from - left;
  mr__resample_down_best(r, &r->down, top, src, w, r->rows.at);
  resample_turn(r->rows.at, w, h, w, r->turned.at);
  mr__resample_down_best(r, &r->across, from, (mr_part_t){r->turned.at, h}, h, r->rows.at);
  resample_turn(r->rows.at, h, n, h, dst);
  return MR_OK;
}
