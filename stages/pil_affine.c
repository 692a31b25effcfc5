/* Pillow's Image.transform(AFFINE): each pixel of the result is looked up in the picture.  Nearest
   walks in fixed point with 16 bits behind the point, or, where rows stay rows, adds up doubles;
   bilinear computes each place in doubles.  A place outside the picture gets the fill colour. */
#include <math.h>
#include <string.h>

#include "stages/pil_ops.h"

static void fill_spare(mr_canvas_t *c, const uint8_t *fill) {
  size_t n = mr_canvas_size(c);
  if (c->C == 1 || (fill[0] == fill[1] && fill[0] == fill[2]))
    memset(c->spare, fill[0], n);
  else
    for (size_t k = 0; k < n; k += 3) memcpy(c->spare + k, fill, 3);
}

static inline void copy_pixel(uint8_t *to, const uint8_t *from, int C) {
  to[0] = from[0];
  if (C == 3) to[1] = from[1], to[2] = from[2];
}

/* m[1] == 0 and m[3] == 0: columns and rows are looked up apart. */
static void look_up_straight(mr_canvas_t *c, const double *m) {
  double y_at = m[5] + m[4] * 0.5;
  size_t C = (size_t)c->C, row = (size_t)c->w * C;
  for (int y = 0; y < c->h; y++, y_at += m[4]) {
    if (y_at < 0 || (int)y_at >= c->h) continue;
    const uint8_t *from = c->at + (size_t)(int)y_at * row;
    uint8_t *to = c->spare + (size_t)y * row;
    double x_at = m[2] + m[0] * 0.5;
    for (int x = 0; x < c->w; x++, x_at += m[0])
      if (x_at >= 0 && (int)x_at < c->w)
        copy_pixel(to + (size_t)x * C, from + (size_t)(int)x_at * C, c->C);
  }
}

static int to_fixed(double v) { return (int)floor(v * 65536.0 + 0.5); }

static inline __attribute__((always_inline)) void look_up_fixed(mr_canvas_t *c, const double *m,
                                                                int C) {
  int dxx = to_fixed(m[0]), dxy = to_fixed(m[1]), dyx = to_fixed(m[3]), dyy = to_fixed(m[4]);
  int x_row = to_fixed(m[2] + m[0] * 0.5 + m[1] * 0.5),
      y_row = to_fixed(m[5] + m[3] * 0.5 + m[4] * 0.5);
  uint8_t *to = c->spare;
  for (int y = 0; y < c->h; y++, x_row += dxy, y_row += dyy) {
    int xx = x_row, yy = y_row;
    for (int x = 0; x < c->w; x++, to += C, xx += dxx, yy += dyx) {
      int xi = xx >> 16, yi = yy >> 16;
      if ((unsigned)xi < (unsigned)c->w && (unsigned)yi < (unsigned)c->h)
        copy_pixel(to, c->at + ((size_t)yi * (size_t)c->w + (size_t)xi) * (size_t)C, C);
    }
  }
}

static inline int clip_to(int v, int n) { return v < 0 ? 0 : v < n ? v : n - 1; }

static void mix_four(const mr_canvas_t *c, double x_in, double y_in, uint8_t *to) {
  x_in -= 0.5, y_in -= 0.5;
  /* floor: both are at least -0.5 */
  int x = (int)x_in - (x_in < 0), y = (int)y_in - (y_in < 0), C = c->C;
  double dx = x_in - x, dy = y_in - y;
  const uint8_t *up = c->at + (size_t)clip_to(y, c->h) * (size_t)(c->w * C);
  const uint8_t *down = c->at + (size_t)clip_to(y + 1, c->h) * (size_t)(c->w * C);
  int left = clip_to(x, c->w) * C, right = clip_to(x + 1, c->w) * C;
  for (int k = 0; k < C; k++) {
    double a = up[left + k] + (up[right + k] - up[left + k]) * dx;
    double b = down[left + k] + (down[right + k] - down[left + k]) * dx;
    to[k] = (uint8_t)(a + (b - a) * dy);
  }
}

static void look_up_bilinear(mr_canvas_t *c, const double *m) {
  uint8_t *to = c->spare;
  for (int y = 0; y < c->h; y++)
    for (int x = 0; x < c->w; x++, to += c->C) {
      double x_in = m[0] * (x + 0.5) + m[1] * (y + 0.5) + m[2];
      double y_in = m[3] * (x + 0.5) + m[4] * (y + 0.5) + m[5];
      if (x_in >= 0 && x_in < c->w && y_in >= 0 && y_in < c->h) mix_four(c, x_in, y_in, to);
    }
}

void mr_pil_affine(mr_canvas_t *c, const double *m, const mr_pil_sampling_t *how) {
  fill_spare(c, how->fill);
  if (how->bilinear)
    look_up_bilinear(c, m);
  else if (m[1] == 0 && m[3] == 0)
    look_up_straight(c, m);
  else if (c->C == 3)
    look_up_fixed(c, m, 3);
  else
    look_up_fixed(c, m, 1);
  mr_canvas_swap(c);
}

/* Python's round(v, 15) for |v| <= 1: the double nearest to the nearest multiple of 10^-15.  The
   product is not exact; fma gives what it lacks, which decides where it lies half way. */
static double round_15(double v) {
  double p = v * 1e15, lacks = fma(v, 1e15, -p), n = nearbyint(p), half = p - n;
  if (half == 0.5 && lacks > 0) n += 1;
  if (half == -0.5 && lacks < 0) n -= 1;
  return n / 1e15;
}

/* By a half turn, or, if the picture is square, by a quarter, whose pixels need no looking up. */
static void turn_exactly(mr_canvas_t *c, int quarters) {
  size_t C = (size_t)c->C;
  int h = c->h, w = c->w;
  for (int y = 0; y < h; y++)
    for (int x = 0; x < w; x++) {
      int yi = quarters == 2 ? h - 1 - y : quarters == 1 ? x : w - 1 - x;
      int xi = quarters == 2 ? w - 1 - x : quarters == 1 ? w - 1 - y : y;
      copy_pixel(c->spare + (size_t)(y * w + x) * C, c->at + (size_t)(yi * w + xi) * C, c->C);
    }
  mr_canvas_swap(c);
}

void mr_pil_rotate(mr_canvas_t *c, double angle, const mr_pil_sampling_t *how) {
  angle = fmod(angle, 360);
  if (angle < 0) angle += 360;
  if (angle == 0) return;
  if (angle == 180 || ((angle == 90 || angle == 270) && c->w == c->h)) {
    turn_exactly(c, angle == 180 ? 2 : angle == 90 ? 1 : 3);
    return;
  }
  double a = -(angle * (M_PI / 180)), cx = c->w / 2.0, cy = c->h / 2.0;
  double m[6] = {round_15(cos(a)), round_15(sin(a)), 0, round_15(-sin(a)), round_15(cos(a)), 0};
  m[2] = m[0] * -cx + m[1] * -cy + 0.0 + cx;
  m[5] = m[3] * -cx + m[4] * -cy + 0.0 + cy;
  mr_pil_affine(c, m, how);
}

/* In the order of torchvision's _get_inverse_affine_matrix, with no rotation and scale 1. */
static void shear_matrix(double shear_x, double shear_y, double cx, double cy, double tx, double ty,
                         double *m) {
  double sx = shear_x * (M_PI / 180), sy = shear_y * (M_PI / 180), turn = 0.0 - sy;
  double a = cos(turn) / cos(sy), b = -(a * tan(sx) + sin(0.0)), k = sin(turn) / cos(sy),
         d = cos(0.0) - k * tan(sx);
  m[0] = d, m[1] = -b, m[2] = 0, m[3] = -k, m[4] = a, m[5] = 0;
  m[2] += cx - m[0] * (cx + tx) - m[1] * (cy + ty);
  m[5] += cy - m[3] * (cx + tx) - m[4] * (cy + ty);
}

void mr_pil_shear(mr_canvas_t *c, double shear_x, double shear_y, double cx, double cy,
                  const mr_pil_sampling_t *how) {
  double m[6];
  shear_matrix(shear_x, shear_y, cx, cy, 0, 0, m);
  mr_pil_affine(c, m, how);
}

void mr_pil_translate(mr_canvas_t *c, int x, int y, const mr_pil_sampling_t *how) {
  double m[6];
  shear_matrix(0, 0, c->w * 0.5, c->h * 0.5, x, y, m);
  mr_pil_affine(c, m, how);
}
