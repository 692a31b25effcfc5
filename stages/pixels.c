/* Finds the pictures of a stage's input, and converts between pixels and planes. */
#include "stages/pixels.h"

static bool is_grey(const mr_field_t *f) { return f->ndim == 2; }

static bool could_be(const mr_field_t *f) {
  return f->dtype == MR_U8 && !f->ragged &&
         (is_grey(f) || (f->ndim == 3 && f->layout != MR_LAYOUT_NONE));
}

mr_err_t mr_pixels_plan(mr_stage_t *s, const char *field, int channels_max, int side_max,
                        mr_pixels_t *out) {
  int at =
      mr_field_choose(s, field, could_be, "u8 pictures in CHW or HWC, or without channels (H,W)");
  if (at < 0) return (mr_err_t)at;
  const mr_field_t *in = &s->in_spec[0].field[at];
  bool grey = is_grey(in), hwc = in->layout == MR_LAYOUT_HWC;
  int64_t C = grey ? 1 : in->dim[hwc ? 2 : 0];
  int h_at = grey || hwc ? 0 : 1;
  if (C > channels_max || in->dim[h_at] > side_max || in->dim[h_at + 1] > side_max)
    return mr_stage_fail(s, MR_ERR_SHAPE, "takes pictures of at most %d channels and %d x %d",
                         channels_max, side_max, side_max);
  *out = (mr_pixels_t){.field = at,
                       .C = (int)C,
                       .H = (int)in->dim[h_at],
                       .W = (int)in->dim[h_at + 1],
                       .hwc = hwc && C > 1,
                       .h_at = h_at};
  s->writes = (uint16_t)(1u << at);
  return MR_OK;
}

/* C is a constant where these are inlined. */
static inline __attribute__((always_inline)) void pixels_split(const uint8_t *src, int stride,
                                                               int H, int W, int C, uint8_t *dst) {
  for (int y = 0; y < H; y++, src += stride)
    for (int c = 0; c < C; c++)
      for (int x = 0; x < W; x++) dst[(c * H + y) * W + x] = src[x * C + c];
}

static inline __attribute__((always_inline)) void pixels_join(const uint8_t *src, int n, int C,
                                                              uint8_t *dst) {
  for (int k = 0; k < n; k++)
    for (int c = 0; c < C; c++) dst[k * C + c] = src[c * n + k];
}

void mr_pixels_split(const uint8_t *src, int stride, int H, int W, int C, uint8_t *dst) {
  switch (C) {
    case 1: pixels_split(src, stride, H, W, 1, dst); break;
    case 3: pixels_split(src, stride, H, W, 3, dst); break;
    case 4: pixels_split(src, stride, H, W, 4, dst); break;
    default: pixels_split(src, stride, H, W, C, dst);
  }
}

void mr_pixels_join(const uint8_t *src, int H, int W, int C, uint8_t *dst) {
  switch (C) {
    case 1: pixels_join(src, H * W, 1, dst); break;
    case 3: pixels_join(src, H * W, 3, dst); break;
    case 4: pixels_join(src, H * W, 4, dst); break;
    default: pixels_join(src, H * W, C, dst);
  }
}
