/* Confusion matrices and sheets of mistakes painted as RGB, for the page and for event files;
   picture_png.c encodes them.  They have no text and no library of graphics: a matrix is squares of
   a shade, a sheet is the pictures themselves beside each other. */
#include "sinks/picture.h"

#include <stdlib.h>
#include <string.h>

enum {
  CELL = 24,  /* pixels: side of a square of the matrix, for few classes */
  MOST = 1536 /* about the side of the matrix of many */
};
enum { GAP = 2 /* pixels between cells of a sheet */ };

/* Paints one cell, from white to blue by the cell's share of its row. */
static void picture_paint(uint8_t *rgb, int side, int cell, const mr_confused_t *c, double share) {
  uint8_t fade = (uint8_t)(255 - 225 * share);
  for (int y = c->truth * cell; y < (c->truth + 1) * cell; y++)
    for (int x = c->guess * cell; x < (c->guess + 1) * cell; x++) {
      uint8_t *p = rgb + ((size_t)y * (size_t)side + (size_t)x) * 3;
      p[0] = fade, p[1] = (uint8_t)(fade / 2 + 127), p[2] = 255;
    }
}

/* Fills the picture with cells that are 0, of the same shade as a share of 0. */
static void picture_clear(uint8_t *rgb, size_t n) {
  for (size_t i = 0; i < n; i++)
    rgb[3 * i] = 255, rgb[3 * i + 1] = 255 / 2 + 127, rgb[3 * i + 2] = 255;
}

void *mr_png_of_confusion(const mr_report_t *r, int *side, size_t *n) {
  if (r->n_classes < 1 || r->n_classes > MR_CONFUSION_CLASSES) return NULL;
  int C = (int)r->n_classes, cell = C * CELL <= MOST ? CELL : C < MOST ? MOST / C : 1;
  *side = C * cell;
  uint8_t *rgb = malloc((size_t)*side * (size_t)*side * 3);
  if (!rgb) return NULL;
  picture_clear(rgb, (size_t)*side * (size_t)*side);
  for (size_t i = 0, end; i < r->n_confused; i = end) { /* a row after the other */
    uint64_t sum = 0;
    for (end = i; end < r->n_confused && r->confused[end].truth == r->confused[i].truth; end++)
      sum += r->confused[end].count;
    for (size_t k = i; k < end; k++)
      picture_paint(rgb, *side, cell, &r->confused[k],
                    sum ? (double)r->confused[k].count / (double)sum : 0);
  }
  void *png = mr_png_of(rgb, *side, *side, n);
  free(rgb);
  return png;
}

/* ---- sheets ---- */

enum { SLOT_W = MR_SHEET_EACH * MR_PICTURE_SIDE + GAP, SLOT_H = MR_PICTURE_SIDE + GAP };

void mr_sheet_fini(mr_sheet_t *s) {
  free(s->rgb), free(s->count);
  *s = (mr_sheet_t){0};
}

static bool picture_begin(mr_sheet_t *s, const mr_report_t *r) {
  mr_sheet_fini(s);
  int C = r->dataset->n_classes;
  size_t bytes = (size_t)(C * SLOT_W) * (size_t)(C * SLOT_H) * 3;
  s->rgb = malloc(bytes), s->count = calloc((size_t)C, (size_t)C);
  if (!s->rgb || !s->count) return mr_sheet_fini(s), false;
  memset(s->rgb, 255, bytes);
  s->step = r->step, s->split = mr_report_split(r), s->n_classes = C, s->width = C * SLOT_W,
  s->height = C * SLOT_H;
  return true;
}

static bool sheet_add_one(mr_sheet_t *s, const mr_report_t *r, const mr_picture_t *p) {
  int C = r->dataset ? r->dataset->n_classes : 0;
  if (C < 1 || C > MR_SHEET_CLASSES || p->truth < 0 || p->truth >= C || p->guess < 0 ||
      p->guess >= C || p->width > MR_PICTURE_SIDE || p->height > MR_PICTURE_SIDE)
    return true;
  if ((s->n_classes != C || s->step != r->step || strcmp(s->split, mr_report_split(r)) != 0) &&
      !picture_begin(s, r))
    return false;
  uint8_t *count = &s->count[p->truth * C + p->guess];
  if (*count == MR_SHEET_EACH) return true;
  int x = p->guess * SLOT_W + (*count)++ * MR_PICTURE_SIDE, y = p->truth * SLOT_H;
  for (int row = 0; row < p->height; row++)
    memcpy(s->rgb + ((size_t)(y + row) * (size_t)s->width + (size_t)x) * 3,
           p->rgb + (size_t)row * (size_t)p->width * 3, (size_t)p->width * 3);
  return true;
}

bool mr_sheet_add(mr_sheet_t *s, const mr_report_t *r) {
  bool added = true;
  for (size_t i = 0; i < r->n_pictures; i++) added &= sheet_add_one(s, r, &r->picture[i]);
  return added;
}

void *mr_sheet_png(mr_sheet_t *s, size_t *n) {
  void *png = mr_png_of(s->rgb, s->width, s->height, n);
  s->n_classes = 0;
  return png;
}
