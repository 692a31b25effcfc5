/* Pillow's ImageEnhance: a picture is blended with a degenerate form of it, black, its mean grey,
   its grey picture or its smoothed picture.  Factors above 1 lead away from that form.

   Where the degenerate form is one level, blending is a table of 256 levels. */
#include <string.h>

#include "stages/pil_ops.h"

/* One level between a (factor 0) and b (factor 1), or beyond b; Pillow computes in floats and cuts
   the fraction off. */
static inline uint8_t blend_level(int a, int b, float factor) {
  float v = (float)a + factor * (float)(b - a);
  v = v < 0 ? 0 : v;
  return (uint8_t)(v > 255 ? 255 : v);
}

static void blend_with_level(mr_canvas_t *c, int level, float factor) {
  uint8_t table[256];
  size_t n = mr_canvas_size(c);
  for (int b = 0; b < 256; b++) table[b] = blend_level(level, b, factor);
  for (size_t k = 0; k < n; k++) c->at[k] = table[c->at[k]];
}

/* Luma of ITU-R 601-2 in 16 bits behind the point. */
static inline uint8_t grey_of(const uint8_t *rgb) {
  return (uint8_t)((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16);
}

void mr_pil_brightness(mr_canvas_t *c, double factor) { blend_with_level(c, 0, (float)factor); }

void mr_pil_contrast(mr_canvas_t *c, double factor) {
  size_t pixels = (size_t)c->h * (size_t)c->w;
  int64_t sum = 0;
  if (c->C == 1)
    for (size_t k = 0; k < pixels; k++) sum += c->at[k];
  else
    for (size_t k = 0; k < pixels; k++) sum += grey_of(c->at + 3 * k);
  blend_with_level(c, (int)((double)sum / (double)pixels + 0.5), (float)factor);
}

/* b[n] becomes levels between a and b.  A loop of its own, which compilers vectorise. */
static void blend_run(const uint8_t *restrict a, uint8_t *restrict b, int n, float factor) {
  for (int k = 0; k < n; k++) b[k] = blend_level(a[k], b[k], factor);
}

void mr_pil_saturation(mr_canvas_t *c, double factor) {
  enum { RUN = 256 };
  size_t pixels = (size_t)c->h * (size_t)c->w;
  uint8_t grey[3 * RUN], *p = c->at;
  if (c->C == 1) return;
  for (size_t left = pixels; left; p += 3 * RUN) {
    int n = left < RUN ? (int)left : RUN;
    for (int k = 0; k < n; k++) {
      uint8_t g = grey_of(p + 3 * k);
      grey[3 * k] = grey[3 * k + 1] = grey[3 * k + 2] = g;
    }
    blend_run(grey, p, 3 * n, (float)factor);
    left -= (size_t)n;
  }
}

void mr_pil_grey(mr_canvas_t *c) {
  size_t pixels = (size_t)c->h * (size_t)c->w;
  if (c->C == 1) return;
  for (uint8_t *p = c->at, *end = p + 3 * pixels; p < end; p += 3) memset(p, grey_of(p), 3);
}

/* ImageFilter.SMOOTH weights a pixel by 5/13 and each neighbour by 1/13; 13 is odd, so that no sum
   lies half way between levels.  Pixels at the border stay as they are.  A product and a shift
   divide by 26, exactly up to the largest sum, 2 * 13 * 255 + 13. */
static void sharpen_row(const uint8_t *restrict up, const uint8_t *restrict at,
                        const uint8_t *restrict down, int C, int n, float factor,
                        uint8_t *restrict out) {
  for (int k = C; k < n - C; k++) {
    int sum = up[k - C] + up[k] + up[k + C] + at[k - C] + 5 * at[k] + at[k + C] + down[k - C] +
              down[k] + down[k + C];
    out[k] = blend_level((2 * sum + 13) * 161320 >> 22, at[k], factor);
  }
}

void mr_pil_sharpness(mr_canvas_t *c, double factor) {
  int row = c->w * c->C;
  if (c->h < 3 || c->w < 3) return;
  memcpy(c->spare, c->at, (size_t)row);
  for (int y = 1; y < c->h - 1; y++) {
    const uint8_t *at = c->at + (size_t)y * (size_t)row;
    uint8_t *out = c->spare + (size_t)y * (size_t)row;
    memcpy(out, at, (size_t)c->C);
    sharpen_row(at - row, at, at + row, c->C, row, (float)factor, out);
    memcpy(out + row - c->C, at + row - c->C, (size_t)c->C);
  }
  size_t last = (size_t)(c->h - 1) * (size_t)row;
  memcpy(c->spare + last, c->at + last, (size_t)row);
  mr_canvas_swap(c);
}
