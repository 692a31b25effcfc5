/* Pictures as PNG, for pages and event files.  A build without libpng makes none: sinks that have
   pictures to show leave them out where !mr_built_in("PNG"), and say so. */
#ifndef MR_SINKS_PICTURE_H
#define MR_SINKS_PICTURE_H

#include <stdbool.h>
#include <stddef.h>

#include "metrics/metrics.h"

/* rgb: (height,width,3).  The PNG (heap) and its size; NULL when memory is short. */
void *mr_png_of(const uint8_t *rgb, int width, int height, size_t *n);

/* The confusion matrix as a heat map, a square a cell, each row scaled to its own sum. */
void *mr_png_of_confusion(const mr_metrics_t *r, int *side, size_t *n);

/* Pictures of an evaluation's mistakes on one sheet, laid out as the confusion matrix: a row for
   each true class, a column for each guess, the first MR_SHEET_EACH pictures in a cell. */
enum { MR_SHEET_EACH = 2 };

typedef struct mr_sheet {
  int64_t step;
  int n_classes; /* 0: empty */
  uint8_t *rgb;  /* (height,width,3) heap */
  int width, height;
  uint8_t count[MR_METRICS_CLASSES * MR_METRICS_CLASSES];
} mr_sheet_t;

/* Adds the picture of a record of kind MR_METRICS_WRONG; the first one of another step clears the
   sheet.  One without a class or beyond its cell's number is left out.  false: no memory. */
bool mr_sheet_add(mr_sheet_t *s, const mr_metrics_t *r);

/* The PNG (heap) and its size, and the sheet is empty again; NULL when memory is short. */
void *mr_sheet_png(mr_sheet_t *s, size_t *n);

void mr_sheet_fini(mr_sheet_t *s); /* all zero is fine */

#endif
