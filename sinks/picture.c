/* Confusion matrices and sheets of mistakes painted as RGB, for the page and for event files;
   picture_png.c encodes them.  They have no text and no library of graphics: a matrix is squares of
   a shade, a sheet is the pictures themselves beside each other. */
#include "sinks/picture.h"

#include <stdlib.h>
#include <string.h>

enum { CELL = 24, GAP = 2 }; /* pixels: side of a square of the matrix; between cells of a sheet */

/* Paints one cell, from white to blue by the cell's share of its row. */
static void picture_paint(uint8_t *rgb, int side, int row, int column, double share) {
  uint8_t fade = (uint8_t)(255 - 225 * share);
  for (int y = row * CELL; y < (row + 1) * CELL; y++)
    for (int x = column * CELL; x < (column + 1) * CELL; x++) {
      uint8_t *p = rgb + ((size_t)y * (size_t)side + (size_t)x) * 3;
      p[0] = fade, p[1] = (uint8_t)(fade / 2 + 127), p[2] = 255;
    }
}

void *mr_png_of_confusion(const mr_metrics_t *r, int *side, size_t *n) {
  int C = r->n_classes < MR_METRICS_CLASSES ? r->n_classes : MR_METRICS_CLASSES;
  *side = C * CELL;
  uint8_t *rgb = C > 0 ? malloc((size_t)*side * (size_t)*side * 3) : NULL;
  if (!rgb) return NULL;
  for (int t = 0; t < C; t++) {
    uint64_t sum = 0;
    for (int g = 0; g < C; g++) sum += r->confusion[t * C + g];
    for (int g = 0; g < C; g++)
      picture_paint(rgb, *side, t, g, sum ? (double)r->confusion[t * C + g] / (double)sum : 0);
  }
  void *png = mr_png_of(rgb, *side, *side, n);
  free(rgb);
  return png;
}

/* ---- sheets ---- */

enum { SLOT_W = MR_SHEET_EACH * MR_PICTURE_SIDE + GAP, SLOT_H = MR_PICTURE_SIDE + GAP };

void mr_sheet_fini(mr_sheet_t *s) {
  free(s->rgb);
  *s = (mr_sheet_t){0};
}

static bool picture_begin(mr_sheet_t *s, const mr_metrics_t *r) {
  mr_sheet_fini(s);
  int C = r->dataset->n_classes;
  size_t bytes = (size_t)(C * SLOT_W) * (size_t)(C * SLOT_H) * 3;
  if (!(s->rgb = malloc(bytes))) return false;
  memset(s->rgb, 255, bytes);
  s->step = r->step, s->n_classes = C, s->width = C * SLOT_W, s->height = C * SLOT_H;
  return true;
}

bool mr_sheet_add(mr_sheet_t *s, const mr_metrics_t *r) {
  const mr_picture_t *p = &r->picture;
  int C = r->dataset ? r->dataset->n_classes : 0;
  if (C < 1 || C > MR_METRICS_CLASSES || p->truth < 0 || p->truth >= C || p->guess < 0 ||
      p->guess >= C || p->width > MR_PICTURE_SIDE || p->height > MR_PICTURE_SIDE)
    return true;
  if ((s->n_classes != C || s->step != r->step) && !picture_begin(s, r)) return false;
  uint8_t *count = &s->count[p->truth * C + p->guess];
  if (*count == MR_SHEET_EACH) return true;
  int x = p->guess * SLOT_W + (*count)++ * MR_PICTURE_SIDE, y = p->truth * SLOT_H;
  for (int row = 0; row < p->height; row++)
    memcpy(s->rgb + ((size_t)(y + row) * (size_t)s->width + (size_t)x) * 3,
           p->rgb + (size_t)row * (size_t)p->width * 3, (size_t)p->width * 3);
  return true;
}

void *mr_sheet_png(mr_sheet_t *s, size_t *n) {
  void *png = mr_png_of(s->rgb, s->width, s->height, n);
  s->n_classes = 0;
  return png;
}
