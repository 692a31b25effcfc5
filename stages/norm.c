#include "stages/norm.h"

#include <math.h>
#include <string.h>

#include "base/isa.h"

/* x/y out of a reciprocal that is a sum of two floats, inv + rest: what the vector paths compute.
   Rounded correctly for most operands; where it is not for some byte, the table serves. */
static float divided(float x, float inv, float rest) { return fmaf(x, inv, x * rest); }

static bool formula_agrees(const mr_norm_t *t) {
  for (int c = 0; c < 3; c++)
    for (int x = 0; x < 256; x++) {
      float scaled = divided((float)x, MR_NORM_INV, MR_NORM_REST) - t->mean[c];
      float y = divided(scaled, t->inv[c], t->rest[c]);
      if (memcmp(&y, &t->table[c][x], sizeof y)) return false;
    }
  return true;
}

static void fill_channel(mr_norm_t *t, int c, double mean, double std) {
  t->mean[c] = (float)mean, t->std[c] = (float)std;
  t->inv[c] = 1.0f / t->std[c];
  t->rest[c] = (float)(1.0 / (double)t->std[c] - (double)t->inv[c]);
  for (int x = 0; x < 256; x++) {
    volatile float scaled = (float)x / 255.0f; /* each step is rounded to f32 */
    volatile float centred = scaled - t->mean[c];
    t->table[c][x] = centred / t->std[c];
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

static void plain(const mr_norm_t *t, const uint8_t *src, int n, bool hwc, mr_dtype_t out,
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
    plain(t, src, n, hwc, out, dst);
  else if (t->avx512 && out == MR_F32)
    mr__norm_avx512(t, src, n, hwc, dst);
  else if (t->avx512 && out == MR_BF16)
    mr__norm_bf16_avx512(t, src, n, hwc, dst);
  else
    mr__norm_avx2(t, src, n, hwc, out, dst);
}
