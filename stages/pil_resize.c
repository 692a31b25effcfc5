/* The plain path of Pillow's resampling of one plane, and the choice of a faster one.  It is
   Pillow's arithmetic as written, two passes over fixed-point weights; every fast path is tested
   against it and must give the same bytes. */
#include "stages/pil_resize.h"

#include <string.h>

static uint8_t weigh_taps(const uint8_t *pixel, int stride, const int32_t *q, int n) {
  int32_t sum = 1 << 21;
  for (int k = 0; k < n; k++) sum += pixel[k * stride] * q[k];
  sum >>= 22;
  return (uint8_t)(sum > 255 ? 255 : sum);
}

/* Resizes h rows of pixels, stride apart, to h rows of `out`. */
static void pil_resize_row_passes(const mr_pil_pass_t *t, int out, const uint8_t *src, int stride,
                                  int h, uint8_t *dst) {
  for (int y = 0; y < h; y++, src += stride, dst += out)
    for (int x = 0; x < out; x++)
      dst[x] = weigh_taps(src + t->first[x], 1, t->q + x * t->taps, t->count[x]);
}

/* Resizes rows of `width` pixels, stride apart, to `out` rows. */
static void pil_resize_column_pass(const mr_pil_pass_t *t, int out, const uint8_t *src, int stride,
                                   int width, uint8_t *dst) {
  for (int y = 0; y < out; y++)
    for (int x = 0; x < width; x++)
      dst[y * width + x] =
          weigh_taps(src + t->first[y] * stride + x, stride, t->q + y * t->taps, t->count[y]);
}

static void copy_rows(const uint8_t *src, int stride, int rows, int width, uint8_t *dst) {
  for (int y = 0; y < rows; y++) memcpy(dst + y * width, src + y * stride, (size_t)width);
}

/* Pillow skips a pass whose size does not change. */
void mr__pil_plane(const mr_pil_pass_t *down, const mr_pil_pass_t *across, const uint8_t *src,
                   int stride, int h, int w, int out_h, int out_w, bool down_first, uint8_t *dst,
                   uint8_t *scratch) {
  if (h == out_h && w == out_w) {
    copy_rows(src, stride, h, w, dst);
  } else if (h == out_h) {
    pil_resize_row_passes(across, out_w, src, stride, h, dst);
  } else if (w == out_w) {
    pil_resize_column_pass(down, out_h, src, stride, w, dst);
  } else if (down_first) {
    pil_resize_column_pass(down, out_h, src, stride, w, scratch);
    pil_resize_row_passes(across, out_w, scratch, w, out_h, dst);
  } else {
    pil_resize_row_passes(across, out_w, src, stride, h, scratch);
    pil_resize_column_pass(down, out_h, scratch, out_w, out_w, dst);
  }
}

static bool fits_fast(const mr_pil_t *p, int W, mr_box_t b) {
  return p->avx2 && W == 32 && p->pass[b.w].two && p->pass[b.h].two;
}

static bool fits_any(const mr_pil_t *p, mr_box_t b) {
  bool wide = p->any512 || b.w >= 16 || !mr__pil_down_first(p, b);
  return p->any2 && p->pass[b.w].any && p->pass[b.h].any && wide;
}

/* The plain path; first makes the weights of sides beyond the tables. */
static void crop_plain(const mr_pil_t *p, const uint8_t *src, int C, int H, int W, mr_box_t b,
                       uint8_t *dst, uint8_t *scratch) {
  const mr_pil_pass_t *down = p->pass, *across = p->pass;
  mr_pil_pass_t made[2];
  bool first = mr__pil_down_first(p, b);
  int tables = mr__pil_tables(p->max_in, p->out);
  if (b.h > tables) {
    mr__pil_pass_make(&made[0], b.h, p->out, scratch);
    down = &made[0], scratch += mr__pil_pass_bytes(b.h, p->out);
  } else {
    down += b.h;
  }
  if (b.w > tables) {
    mr__pil_pass_make(&made[1], b.w, p->out, scratch);
    across = &made[1], scratch += mr__pil_pass_bytes(b.w, p->out);
  } else {
    across += b.w;
  }
  for (int c = 0; c < C; c++)
    mr__pil_plane(down, across, src + (c * H + b.i) * W + b.j, W, b.h, b.w, p->out, p->out, first,
                  dst + c * p->out * p->out, scratch);
}

size_t mr_pil_scratch(int max_in, int out) {
  bool makes = max_in > mr__pil_tables(max_in, out);
  size_t weights = makes ? 2 * mr__pil_pass_bytes(max_in, out) : 0;
  return weights + (size_t)max_in * (size_t)out;
}

void mr_pil_crop(const mr_pil_t *p, const uint8_t *src, int C, int H, int W, mr_box_t box,
                 uint8_t *dst, uint8_t *scratch) {
  int tables = mr__pil_tables(p->max_in, p->out);
  if (box.h > tables || box.w > tables)
    crop_plain(p, src, C, H, W, box, dst, scratch);
  else if (fits_fast(p, W, box))
    (p->avx512 ? mr__pil_crop_avx512 : mr__pil_crop_avx2)(p, src, C, H, box, dst, scratch);
  else if (fits_any(p, box))
    (p->any512 ? mr__pil_any_avx512 : mr__pil_any_avx2)(p, src, C, H, W, box, dst, scratch);
  else
    crop_plain(p, src, C, H, W, box, dst, scratch);
}
