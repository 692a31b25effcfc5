/* Normalising by tables, which define the result; vector paths run only where their formula gives
   the same bits. */
#include "stages/norm.h"

#include <math.h>
#include <string.h>

#include "base/isa.h"

/* x/y from a reciprocal that is a sum of two floats, inv + rest, as the vector paths compute it.
   Rounded correctly for most operands; if it is wrong for some byte, the table is used. */
static float divide_exactly(float x, float inv, float rest) { return fmaf(x, inv, x * rest); }

static bool formula_agrees(const mr_norm_t *t) {
  for (int c = 0; c < 3; c++)
    for (int x = 0; x < 256; x++) {
      float scaled = divide_exactly((float)x, MR_NORM_INV, MR_NORM_REST) - t->mean[c];
      float y = divide_exactly(scaled, t->inv[c], t->rest[c]);
      if (memcmp(&y, &t->table[c][x], sizeof y)) return false;
    }
  return true;
}

/* volatile: no step may be joined with the next. */
float mr_norm_value(int x, float mean, float std) {
  volatile float scaled = (float)x / 255.0f;
  volatile float centred = scaled - mean;
  return centred / std;
}

static void fill_channel(mr_norm_t *t, int c, double mean, double std) {
  t->mean[c] = (float)mean, t->std[c] = (float)std;
  t->inv[c] = 1.0f / t->std[c];
  t->rest[c] = (float)(1.0 / (double)t->std[c] - (double)t->inv[c]);
  for (int x = 0; x < 256; x++) {
    t->table[c][x] = mr_norm_value(x, t->mean[c], t->std[c]);
    uint16_t h = t->table16[c][x] = mr_bf16_from_f32(t->table[c][x]);
    t->half16[c][0][x] = (uint8_t)h, t->half16[c][1][x] = (uint8_t)(h >> 8);
  }
}

void mr_norm_init(mr_norm_t *t, const double mean[3], const double std[3], bool simd) {
  *t = (mr_norm_t){0};
  for (int c = 0; c < 3; c++) fill_channel(t, c, mean[c], std[c]);
  for (int k = 0; k < 18; k++)
    t->turn[0][k] = t->mean[k % 3], t->turn[1][k] = t->inv[k % 3], t->turn[2][k] = t->rest[k % 3];
  t->avx2 = simd && mr_isa() >= MR_ISA_AVX2 && formula_agrees(t);
  t->avx512 = t->avx2 && mr_isa() >= MR_ISA_AVX512 && mr__norm_has_avx512();
}

static void norm_plain(const mr_norm_t *t, const uint8_t *src, int n, bool hwc, mr_dtype_t out,
                       void *dst) {
  float *f = dst;
  mr_bf16_t *h = dst;
  uint8_t *b = dst;
  for (int c = 0; c < 3; c++)
    for (int k = 0; k < n; k++) {
      uint8_t x = src[c * n + k];
      int at = hwc ? 3 * k + c : c * n + k;
      if (out == MR_F32)
        f[at] = t->table[c][x];
      else if (out == MR_BF16)
        h[at] = t->table16[c][x];
      else
        b[at] = x;
    }
}

void mr_norm(const mr_norm_t *t, const uint8_t *src, int n, bool hwc, mr_dtype_t out, void *dst) {
  if (n % 32 || !t->avx2)
    norm_plain(t, src, n, hwc, out, dst);
  else if (t->avx512 && out == MR_F32)
    mr__norm_avx512(t, src, n, hwc, dst);
  else if (t->avx512 && out == MR_BF16)
    mr__norm_bf16_avx512(t, src, n, hwc, dst);
  else
    mr__norm_avx2(t, src, n, hwc, out, dst);
}

void mr_norm_any_init(mr_norm_any_t *t, int C, const double *mean, const double *std) {
  *t = (mr_norm_any_t){.C = C};
  if (C == 3) mr_norm_init(&t->three, mean, std, true);
  for (int c = 0; c < C; c++)
    for (int x = 0; x < 256; x++) {
      t->table[c][x] = mr_norm_value(x, (float)mean[c], (float)std[c]);
      t->table16[c][x] = mr_bf16_from_f32(t->table[c][x]);
    }
}

/* Interleaved pixels of three channels: in one pass, since dst is larger than a cache. */
static void norm_pixels(const mr_norm_t *t, const uint8_t *src, int n, float *dst) {
  int k = t->avx512 ? mr__norm_pixels_avx512(t, src, n, dst)
          : t->avx2 ? mr__norm_pixels_avx2(t, src, n, dst)
                    : 0;
  for (; k < n; k++)
    for (int c = 0; c < 3; c++) dst[3 * k + c] = t->table[c][src[3 * k + c]];
}

void mr_norm_any(const mr_norm_any_t *t, const uint8_t *src, int n, bool in_hwc, bool out_hwc,
                 mr_dtype_t out, void *dst) {
  int C = t->C, in_step = in_hwc ? C : 1, out_step = out_hwc ? C : 1;
  if (C == 3 && in_hwc && out_hwc && out == MR_F32) {
    norm_pixels(&t->three, src, n, dst);
    return;
  }
  for (int c = 0; c < C; c++) {
    const uint8_t *from = src + (in_hwc ? c : c * n);
    int at = out_hwc ? c : c * n;
    if (out == MR_F32)
      for (int k = 0; k < n; k++)
        ((float *)dst)[at + k * out_step] = t->table[c][from[k * in_step]];
    else if (out == MR_BF16)
      for (int k = 0; k < n; k++)
        ((mr_bf16_t *)dst)[at + k * out_step] = t->table16[c][from[k * in_step]];
    else
      for (int k = 0; k < n; k++) ((uint8_t *)dst)[at + k * out_step] = from[k * in_step];
  }
}
