/* Boxes of torchvision's RandomResizedCrop. */
#include "stages/crop_box.h"

#include <math.h>

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
