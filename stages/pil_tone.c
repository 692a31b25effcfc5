/* Pillow's ImageOps that map each of the 256 levels to another one: by a rule, or by the histogram
   of each channel. */
#include <string.h>

#include "stages/pil_ops.h"

static void map_all(mr_canvas_t *c, const uint8_t *table) {
  size_t n = mr_canvas_size(c);
  for (size_t k = 0; k < n; k++) c->at[k] = table[c->at[k]];
}

static void map_channels(mr_canvas_t *c, uint8_t table[3][256]) {
  if (c->C == 1) {
    map_all(c, table[0]);
    return;
  }
  for (uint8_t *p = c->at, *end = p + mr_canvas_size(c); p < end; p += 3)
    p[0] = table[0][p[0]], p[1] = table[1][p[1]], p[2] = table[2][p[2]];
}

static void count_levels(const mr_canvas_t *c, int count[3][256]) {
  const uint8_t *p = c->at, *end = p + mr_canvas_size(c);
  memset(count, 0, 3 * sizeof *count);
  if (c->C == 1)
    for (; p < end; p++) count[0][*p]++;
  else
    for (; p < end; p += 3) count[0][p[0]]++, count[1][p[1]]++, count[2][p[2]]++;
}

void mr_pil_posterize(mr_canvas_t *c, int bits) {
  size_t n = mr_canvas_size(c);
  uint8_t mask = (uint8_t)(0xFF00 >> bits);
  for (size_t k = 0; k < n; k++) c->at[k] &= mask;
}

void mr_pil_solarize(mr_canvas_t *c, double threshold) {
  uint8_t table[256];
  for (int k = 0; k < 256; k++) table[k] = (uint8_t)(k < threshold ? k : 255 - k);
  map_all(c, table);
}

void mr_pil_invert(mr_canvas_t *c) {
  size_t n = mr_canvas_size(c);
  for (size_t k = 0; k < n; k++) c->at[k] = (uint8_t)~c->at[k];
}

static void stretch_table(const int *count, uint8_t *table) {
  int lo = 0, hi = 255;
  while (lo < 255 && !count[lo]) lo++;
  while (hi > 0 && !count[hi]) hi--;
  double scale = hi > lo ? 255.0 / (hi - lo) : 1, offset = hi > lo ? -lo * scale : 0;
  for (int k = 0; k < 256; k++) {
    double v = k * scale + offset;
    table[k] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
  }
}

void mr_pil_autocontrast(mr_canvas_t *c) {
  int count[3][256];
  uint8_t table[3][256];
  count_levels(c, count);
  for (int k = 0; k < c->C; k++) stretch_table(count[k], table[k]);
  map_channels(c, table);
}

/* Level k becomes the number of pixels below it, in steps of which there are 255 up to the highest
   level in use. */
static void equal_table(const int *count, uint8_t *table) {
  int64_t total = 0, last = 0, below;
  for (int k = 0; k < 256; k++) total += count[k], last = count[k] ? count[k] : last;
  int64_t step = (total - last) / 255;
  below = step / 2;
  for (int k = 0; k < 256; k++) {
    int64_t level = step ? below / step : k;
    table[k] = (uint8_t)(level > 255 ? 255 : level);
    below += count[k];
  }
}

void mr_pil_equalize(mr_canvas_t *c) {
  int count[3][256];
  uint8_t table[3][256];
  count_levels(c, count);
  for (int k = 0; k < c->C; k++) equal_table(count[k], table[k]);
  map_channels(c, table);
}
