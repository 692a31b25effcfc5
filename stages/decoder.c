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

/* The bytes of one value of a type; 0: Pillow reads no number of it. */
static size_t exif_size(uint32_t type) {
  static const uint8_t size[] = {[3] = 2,  [4] = 4,  [5] = 8,  [6] = 1,  [8] = 2, [9] = 4,
                                 [10] = 8, [11] = 4, [12] = 8, [13] = 4, [16] = 8};
  return type < sizeof size ? size[type] : 0;
}

/* The value at `at`, or 0 if it is not in [1,8]. */
static int exif_value(const uint8_t *at, uint32_t type, bool little) {
  uint32_t a = exif_number(at, exif_size(type) == 1 ? 1 : exif_size(type) == 2 ? 2 : 4, little);
  if (type == 5 || type == 10) { /* a quotient */
    uint32_t b = exif_number(at + 4, 4, little);
    if (type == 10 && (int32_t)a < 0 && (int32_t)b < 0) a = 0u - a, b = 0u - b;
    a = b && a % b == 0 ? a / b : 0;
  } else if (type == 16) {
    uint32_t b = exif_number(at + 4, 4, little);
    a = (little ? b : a) ? 0 : little ? a : b;
  } else if (type == 11) {
    float v;
    memcpy(&v, &a, sizeof v);
    a = v >= 1 && v <= 8 && v == (float)(int)v ? (uint32_t)v : 0;
  } else if (type == 12) {
    uint64_t bits = a, more = exif_number(at + 4, 4, little);
    double v;
    bits = little ? bits | more << 32 : bits << 32 | more;
    memcpy(&v, &bits, sizeof v);
    a = v >= 1 && v <= 8 && v == (double)(int)v ? (uint32_t)v : 0;
  }
  return a >= 1 && a <= 8 ? (int)a : 0;
}

int mr_exif_orientation(const uint8_t *bytes, size_t n) {
  enum { TAG = 0x112, ROW = 12 };
  if (n >= 6 && !memcmp(bytes, "Exif\0\0", 6)) bytes += 6, n -= 6;
  if (n < 14 || (memcmp(bytes, "II*\0", 4) && memcmp(bytes, "MM\0*", 4))) return 0;
  bool little = *bytes == 'I';
  size_t at = exif_number(bytes + 4, 4, little);
  if (at > n - 2) return 0;
  size_t rows = exif_number(bytes + at, 2, little);
  for (at += 2; rows && at + ROW <= n; rows--, at += ROW) {
    if (exif_number(bytes + at, 2, little) != TAG) continue;
    uint32_t type = exif_number(bytes + at + 2, 2, little);
    uint32_t count = exif_number(bytes + at + 4, 4, little);
    size_t size = exif_size(type), from = at + 8;
    if (size * (uint64_t)count > 4) from = exif_number(bytes + from, 4, little);
    if (!count) continue; /* as if it were not there */
    bool inside = size && from <= n && (n - from) / size >= count;
    if (size && !inside) continue;
    int value = inside ? exif_value(bytes + from, type, little) : 0;
    return value ? value : 1;
  }
  return 0;
}

int mr_xmp_orientation(const uint8_t *bytes, size_t n) {
  static const char word[] = "tiff:Orientation";
  const size_t length = sizeof word - 1;
  for (const uint8_t *at = bytes, *end = bytes + n; at && (size_t)(end - at) > length + 2; at++) {
    at = memchr(at, 't', (size_t)(end - at) - length - 2);
    if (!at) break;
    if (memcmp(at, word, length) != 0) continue;
    const uint8_t *v = at + length;
    if (*v == '>')
      v++;
    else if (v[0] == '=' && v[1] == '"' && end - v > 2)
      v += 2;
    else
      continue;
    if (*v >= '0' && *v <= '9') return *v >= '1' && *v <= '8' ? *v - '0' : 1;
  }
  return 0;
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
