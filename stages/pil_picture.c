/* The box of a random crop, and cropping and resizing pictures of any layout through planes, with
   alpha as Pillow treats it. */
#include "stages/pil_picture.h"

#include <math.h>
#include <string.h>

/* ---- the box ---- */

bool mr_crop_size(int H, int W, double area, double aspect, mr_box_t *box) {
  double w = nearbyint(sqrt(area * aspect)), h = nearbyint(sqrt(area / aspect));
  if (!(w > 0 && w <= W && h > 0 && h <= H)) return false;
  box->w = (int)w, box->h = (int)h;
  return true;
}

static int at_least_1(double x) { return x < 1 ? 1 : (int)x; }

mr_box_t mr_crop_fallback(int H, int W, double ratio_lo, double ratio_hi) {
  double in = (double)W / H;
  mr_box_t b = {.h = H, .w = W};
  if (in < ratio_lo) b.h = at_least_1(nearbyint(W / ratio_lo));
  if (in > ratio_hi) b.w = at_least_1(nearbyint(H * ratio_hi));
  b.i = (H - b.h) / 2, b.j = (W - b.w) / 2;
  return b;
}

/* ---- crop and resize ---- */

static size_t pil_picture_round(size_t n) { return (n + 63) / 64 * 64; }

static size_t planes_bytes(int C, int h, int w) { return (size_t)C * (size_t)h * (size_t)w; }

size_t mr_pil_picture_scratch(const mr_pixels_t *in, int out) {
  int side = in->H > in->W ? in->H : in->W;
  return pil_picture_round(mr_pil_scratch(side, out)) +
         pil_picture_round(planes_bytes(in->C, in->H, in->W)) + planes_bytes(in->C, out, out);
}

/* a * b / 255, rounded, as in Pillow's MULDIV255. */
static uint8_t times_over_255(int a, int b) {
  int t = a * b + 128;
  return (uint8_t)(((t >> 8) + t) >> 8);
}

/* Pillow resizes RGBA as RGBa: colours are multiplied by alpha before, and divided by it after. */
static void premultiply_alpha(uint8_t *planes, int n) {
  const uint8_t *alpha = planes + 3 * n;
  for (int c = 0; c < 3; c++, planes += n)
    for (int k = 0; k < n; k++) planes[k] = times_over_255(planes[k], alpha[k]);
}

static void unpremultiply_alpha(uint8_t *planes, int n) {
  const uint8_t *alpha = planes + 3 * n;
  for (int c = 0; c < 3; c++, planes += n)
    for (int k = 0; k < n; k++) {
      if (alpha[k] == 0 || alpha[k] == 255) continue;
      int v = 255 * planes[k] / alpha[k];
      planes[k] = (uint8_t)(v > 255 ? 255 : v);
    }
}

/* Cuts the box's pixels out as planes without gaps. */
static void pil_picture_cut(const mr_pixels_t *in, const uint8_t *src, mr_box_t b,
                            uint8_t *planes) {
  if (in->hwc) {
    mr_pixels_split(src + (b.i * in->W + b.j) * in->C, in->W * in->C, b.h, b.w, in->C, planes);
    return;
  }
  for (int c = 0; c < in->C; c++)
    for (int y = 0; y < b.h; y++, planes += b.w)
      memcpy(planes, src + (c * in->H + b.i + y) * in->W + b.j, (size_t)b.w);
}

void mr_pil_picture(const mr_pil_picture_t *p, const uint8_t *src, mr_box_t b, uint8_t *dst,
                    void *scratch) {
  const mr_pixels_t *in = &p->in;
  int out = p->pil.out, side = in->H > in->W ? in->H : in->W;
  bool resizes = b.h != out || b.w != out; /* otherwise Pillow copies */
  bool weighs = p->alpha && in->C == 4 && resizes;
  uint8_t *rows = scratch, *planes = rows + pil_picture_round(mr_pil_scratch(side, out));
  uint8_t *done = planes + pil_picture_round(planes_bytes(in->C, in->H, in->W));
  if (!in->hwc && !weighs) {
    mr_pil_crop(&p->pil, src, in->C, in->H, in->W, b, dst, rows);
    return;
  }
  pil_picture_cut(in, src, b, planes);
  if (weighs) premultiply_alpha(planes, b.h * b.w);
  uint8_t *to = in->hwc ? done : dst;
  mr_pil_crop(&p->pil, planes, in->C, b.h, b.w, (mr_box_t){.h = b.h, .w = b.w}, to, rows);
  if (weighs) unpremultiply_alpha(to, out * out);
  if (in->hwc) mr_pixels_join(to, out, out, in->C, dst);
}
