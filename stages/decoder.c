/* What decoders share: telling formats apart, and turning pictures by their EXIF
   orientation as Pillow's ImageOps.exif_transpose does. */
#include "stages/decoder.h"

#include <string.h>

bool mr_is_jpeg(const uint8_t *bytes, size_t n) {
  return n >= 3 && !memcmp(bytes, "\xFF\xD8\xFF", 3);
}

bool mr_is_png(const uint8_t *bytes, size_t n) {
  return n >= 8 && !memcmp(bytes, "\x89PNG\r\n\x1A\n", 8);
}

bool mr_is_webp(const uint8_t *bytes, size_t n) {
  return n >= 16 && !memcmp(bytes, "RIFF", 4) && !memcmp(bytes + 8, "WEBPVP8", 7);
}

/* ---- EXIF ---- */

static uint32_t exif_number(const uint8_t *at, int bytes, bool little) {
  uint32_t v = 0;
  for (int i = 0; i < bytes; i++) v |= (uint32_t)at[i] << 8 * (little ? i : bytes - 1 - i);
  return v;
}

int mr_exif_orientation(const uint8_t *bytes, size_t n) {
  enum { TAG = 0x112, SHORT = 3, ROW = 12 };
  if (n >= 6 && !memcmp(bytes, "Exif\0\0", 6)) bytes += 6, n -= 6;
  if (n < 14 || (memcmp(bytes, "II*\0", 4) && memcmp(bytes, "MM\0*", 4))) return 1;
  bool little = *bytes == 'I';
  size_t at = exif_number(bytes + 4, 4, little);
  if (at > n - 2) return 1;
  size_t rows = exif_number(bytes + at, 2, little);
  for (at += 2; rows && at + ROW <= n; rows--, at += ROW) {
    if (exif_number(bytes + at, 2, little) != TAG) continue;
    uint32_t v = exif_number(bytes + at + 8, 2, little);
    return exif_number(bytes + at + 2, 2, little) == SHORT && v >= 1 && v <= 8 ? (int)v : 1;
  }
  return 1;
}

/* ---- turning ---- */

/* Where the pixel at row y, column x of the turned picture was; h, w: before turning. */
static void unturn_pixel(int orientation, int h, int w, int y, int x, int *from_y, int *from_x) {
  bool across = orientation >= 5;
  int a = across ? x : y, b = across ? y : x;
  bool from_end_y = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  bool from_end_x = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  *from_y = from_end_y ? h - 1 - a : a;
  *from_x = from_end_x ? w - 1 - b : b;
}

void mr_turn(const uint8_t *src, size_t stride, int h, int w, int orientation, uint8_t *dst) {
  int out_h = orientation >= 5 ? w : h, out_w = orientation >= 5 ? h : w, fy, fx;
  for (int y = 0; y < out_h; y++)
    for (int x = 0; x < out_w; x++, dst += 3) {
      unturn_pixel(orientation, h, w, y, x, &fy, &fx);
      memcpy(dst, src + (size_t)fy * stride + 3 * (size_t)fx, 3);
    }
}

mr_box_t mr_unturned_box(mr_box_t b, int h, int w, int orientation) {
  int y0, x0, y1, x1;
  if (orientation == 1) return b;
  unturn_pixel(orientation, h, w, b.i, b.j, &y0, &x0);
  unturn_pixel(orientation, h, w, b.i + b.h - 1, b.j + b.w - 1, &y1, &x1);
  int i = y0 < y1 ? y0 : y1, j = x0 < x1 ? x0 : x1;
  return (mr_box_t){
      .i = i, .j = j, .h = (y0 < y1 ? y1 : y0) - i + 1, .w = (x0 < x1 ? x1 : x0) - j + 1};
}
