/* A picture is a figure of its class in one colour on a ground of another, plus noise per
   channel. */
#include "loaders/local/image.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

const char *const mr_synthetic_class[MR_SYNTHETIC_CLASSES] = {
    "disc",  "ring", "square",  "frame",  "triangle",
    "cross", "bars", "columns", "checks", "diagonals"};

enum { DISC, RING, SQUARE, FRAME, TRIANGLE, CROSS, BARS, COLUMNS, CHECKS, DIAGONALS };

/* Place and size of a shape, period and phase of a texture. */
typedef struct figure {
  int label, x, y, radius, period, phase;
} figure_t;

static int draw_int(mr_philox_t *g, int lo, int hi) {
  return (int)mr_philox_integers(g, lo, hi + 1);
}

static figure_t draw_figure(mr_philox_t *g, int label) {
  figure_t f = {.label = label};
  f.radius = draw_int(g, 6, 11);
  f.x = draw_int(g, f.radius, 31 - f.radius), f.y = draw_int(g, f.radius, 31 - f.radius);
  f.period = draw_int(g, 3, 5), f.phase = draw_int(g, 0, 2 * f.period - 1);
  return f;
}

/* Whether a pixel belongs to the figure; if not, to its ground. */
static bool figure_covers(const figure_t *f, int px, int py) {
  int x = px - f->x, y = py - f->y, r = f->radius, thick = 1 + r / 3;
  int far = abs(x) > abs(y) ? abs(x) : abs(y), square = x * x + y * y;
  switch (f->label) {
    case DISC: return square <= r * r;
    case RING: return square <= r * r && square > (r - thick) * (r - thick);
    case SQUARE: return far < r;
    case FRAME: return far < r && far >= r - thick;
    case TRIANGLE: return y < r && y >= -r && 2 * abs(x) <= y + r;
    case CROSS: return far < r && (2 * abs(x) < thick + 1 || 2 * abs(y) < thick + 1);
    case BARS: return (py + f->phase) / f->period % 2;
    case COLUMNS: return (px + f->phase) / f->period % 2;
    case CHECKS: return ((px + f->phase) / f->period + (py + f->phase) / f->period) % 2;
    default: return (px + py + f->phase) / f->period % 2;
  }
}

/* Share of a channel in a full colour of a hue in degrees, as [0,60] for [0,1]. */
static int hue_share(int hue, int channel) {
  int turn = abs((hue + 120 * (3 - channel)) % 360 - 180); /* 180: the channel's own hue */
  int share = turn - 60;
  return share < 0 ? 0 : share > 60 ? 60 : share;
}

/* The ink's hue depends on the class, spread so widely that neighbouring classes overlap; the
   ground is dark. */
static void draw_colours(mr_philox_t *g, int label, int ink[3], int ground[3]) {
  int hue = (36 * label + draw_int(g, 0, 120) + 300) % 360;
  int light = draw_int(g, 130, 240), grey = draw_int(g, 20, 60); /* grey: percent without colour */
  for (int c = 0; c < 3; c++) {
    int full = light * hue_share(hue, c) / 60;
    ink[c] = (full * (100 - grey) + light * grey) / 100;
    ground[c] = draw_int(g, 10, 130);
  }
}

static uint8_t synthetic_draw_clip(int v) { return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v); }

/* Noise as the sum of four bytes: roughly normal, mean 0, deviation about 148 * strength / 256. */
static int noise_of_bits(uint32_t bits, int strength) {
  int sum =
      (int)(bits & 255) + (int)(bits >> 8 & 255) + (int)(bits >> 16 & 255) + (int)(bits >> 24);
  return (sum - 510) * strength / 256;
}

/* Splitmix64 of a counter: a cheap stream for the 3072 noise values of a picture. */
static uint64_t splitmix64_of(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

void mr_synthetic_draw(mr_philox_t *g, int label, uint8_t *dst) {
  figure_t f = draw_figure(g, label);
  int ink[3], ground[3], strength = draw_int(g, 15, 50);
  draw_colours(g, label, ink, ground);
  uint64_t stream = mr_philox_next64(g);
  for (int k = 0; k < 1024; k++) {
    const int *colour = figure_covers(&f, k % 32, k / 32) ? ink : ground;
    uint64_t a = splitmix64_of(stream + 2 * (uint64_t)k),
             b = splitmix64_of(stream + 2 * (uint64_t)k + 1);
    dst[k] = synthetic_draw_clip(colour[0] + noise_of_bits((uint32_t)a, strength));
    dst[1024 + k] = synthetic_draw_clip(colour[1] + noise_of_bits((uint32_t)(a >> 32), strength));
    dst[2048 + k] = synthetic_draw_clip(colour[2] + noise_of_bits((uint32_t)b, strength));
  }
}
