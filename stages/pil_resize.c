#include "stages/pil_resize.h"

#include <string.h>

static uint8_t weigh(const uint8_t *pixel, int stride, const int32_t *q, int n) {
  int32_t sum = 1 << 21;
  for (int k = 0; k < n; k++) sum += pixel[k * stride] * q[k];
  sum >>= 22;
  return (uint8_t)(sum > 255 ? 255 : sum);
}

/* One row of w pixels to one of `out`. */
static void row_pass(const mr_pil_pass_t *t, int out, const uint8_t *row, uint8_t *dst) {
  for (int x = 0; x < out; x++)
    dst[x] = weigh(row + t->first[x], 1, t->q + x * t->taps, t->count[x]);
}

/* h rows of `width` pixels, stride apart, to `out` rows. */
static void column_pass(const mr_pil_pass_t *t, int out, const uint8_t *src, int stride, int width,
                        uint8_t *dst) {
  for (int y = 0; y < out; y++)
    for (int x = 0; x < width; x++)
      dst[y * width + x] =
          weigh(src + t->first[y] * stride + x, stride, t->q + y * t->taps, t->count[y]);
}

static void copy_rows(const uint8_t *src, int stride, int rows, int width, uint8_t *dst) {
  for (int y = 0; y < rows; y++) memcpy(dst + y * width, src + y * stride, (size_t)width);
}

/* Pillow skips a pass whose size does not change. */
static void plane_crop(const mr_pil_t *p, const uint8_t *src, int W, mr_box_t b, uint8_t *dst,
                       uint8_t *rows) {
  int out = p->out, stride = W;
  if (b.w != out) {
    uint8_t *to = b.h == out ? dst : rows;
    for (int y = 0; y < b.h; y++) row_pass(&p->pass[b.w], out, src + y * W, to + y * out);
    src = to, stride = out;
  }
  if (b.h != out) {
    column_pass(&p->pass[b.h], out, src, stride, out, dst);
  } else if (b.w == out) {
    copy_rows(src, stride, out, out, dst);
  }
}

static bool fits_fast(const mr_pil_t *p, int W, mr_box_t b) {
  return p->avx2 && W == 32 && p->pass[b.w].two && p->pass[b.h].two;
}

static bool fits_any(const mr_pil_t *p, mr_box_t b) {
  return p->any2 && p->pass[b.w].any && p->pass[b.h].any;
}

void mr_pil_crop(const mr_pil_t *p, const uint8_t *src, int C, int H, int W, mr_box_t box,
                 uint8_t *dst, uint8_t *scratch) {
  if (fits_fast(p, W, box)) {
    (p->avx512 ? mr__pil_crop_avx512 : mr__pil_crop_avx2)(p, src, C, H, box, dst, scratch);
    return;
  }
  if (fits_any(p, box)) {
    (p->any512 ? mr__pil_any_avx512 : mr__pil_any_avx2)(p, src, C, H, W, box, dst, scratch);
    return;
  }
  for (int c = 0; c < C; c++)
    plane_crop(p, src + (c * H + box.i) * W + box.j, W, box, dst + c * p->out * p->out, scratch);
}
