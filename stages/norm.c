#include "stages/norm.h"

#include <math.h>
#include <string.h>

#include "base/isa.h"

/* x/y rounded correctly out of a rounded reciprocal, for most operands (Markstein's step): what the
   vector path computes.  Where it is not for some byte, the table serves. */
static float divided(float x, float y, float inv) {
  float q = x * inv;
  return fmaf(fmaf(-y, q, x), inv, q);
}

static bool formula_agrees(const mr_norm_t *t) {
  const float inv255 = 1.0f / 255.0f;
  for (int c = 0; c < 3; c++)
    for (int x = 0; x < 256; x++) {
      float scaled = divided((float)x, 255.0f, inv255) - t->mean[c];
      float y = divided(scaled, t->std[c], t->inv_std[c]);
      if (memcmp(&y, &t->table[c][x], sizeof y)) return false;
    }
  return true;
}

void mr_norm_init(mr_norm_t *t, const double mean[3], const double std[3], bool simd) {
  *t = (mr_norm_t){0};
  for (int c = 0; c < 3; c++) {
    t->mean[c] = (float)mean[c], t->std[c] = (float)std[c], t->inv_std[c] = 1.0f / t->std[c];
    for (int x = 0; x < 256; x++) {
      volatile float scaled = (float)x / 255.0f; /* each step is rounded to f32 */
      volatile float centred = scaled - t->mean[c];
      t->table[c][x] = centred / t->std[c];
    }
  }
  t->avx2 = simd && mr_isa() >= MR_ISA_AVX2 && formula_agrees(t);
}

void mr_norm_hwc(const mr_norm_t *t, const uint8_t *src, int n, float *dst) {
  if (t->avx2 && n % 16 == 0) {
    mr__norm_hwc_avx2(t, src, n, dst);
    return;
  }
  for (int k = 0; k < n; k++)
    for (int c = 0; c < 3; c++) dst[3 * k + c] = t->table[c][src[c * n + k]];
}

void mr_norm_chw(const mr_norm_t *t, const uint8_t *src, int n, float *dst) {
  for (int c = 0; c < 3; c++)
    for (int k = 0; k < n; k++) dst[c * n + k] = t->table[c][src[c * n + k]];
}
