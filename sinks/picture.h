/* Pictures as PNG, for pages and event files.  Implemented in picture.c and picture_png.c, or
   without.c in a build without libpng, where every PNG is NULL: sinks then omit pictures
   (!mr_built_in("PNG")) and report it. */
#ifndef MR_SINKS_PICTURE_H
#define MR_SINKS_PICTURE_H

#include <stdbool.h>
#include <stddef.h>

#include "metrics/report.h"

/* Returns rgb, (height,width,3), as a PNG of *n bytes, heap, which the caller frees.  NULL without
   memory or libpng. */
void *mr_png_of(const uint8_t *rgb, int width, int height, size_t *n);

enum { MR_CONFUSION_CLASSES = 2048 /* most classes of such a picture */ };

/* Returns the confusion matrix as a PNG of *n bytes, heap, which the caller frees: a heat map with
   one square of side *side / classes per cell, each row scaled to its own sum.  NULL without
   memory, libpng or classes, or for more than MR_CONFUSION_CLASSES of them. */
void *mr_png_of_confusion(const mr_report_t *r, int *side, size_t *n);

/* The misclassified pictures of an evaluation on one sheet, laid out as the confusion matrix: a row
   for each true class, a column for each guess, the first MR_SHEET_EACH pictures in a cell; for at
   most MR_SHEET_CLASSES classes. */
enum { MR_SHEET_EACH = 2, MR_SHEET_CLASSES = 64 };

typedef struct mr_sheet {
  int64_t step;
  const char *split; /* mr_report_split, not owned */
  int n_classes;     /* 0: empty */
  uint8_t *rgb;      /* (height,width,3) heap */
  int width, height;
  uint8_t *count; /* [n_classes * n_classes] pictures in each cell; heap */
} mr_sheet_t;

/* Adds the pictures of a report of kind MR_REPORT_WRONG; the first one of another step or input
   clears the sheet.  A picture without a class, of too many classes or for a full cell is skipped,
   which is no failure.  Returns false without memory. */
bool mr_sheet_add(mr_sheet_t *s, const mr_report_t *r);

/* Returns the sheet as a PNG of *n bytes, heap, which the caller frees, and empties the sheet.
   NULL without memory or libpng.  The sheet must not be empty. */
void *mr_sheet_png(mr_sheet_t *s, size_t *n);

void mr_sheet_fini(mr_sheet_t *s); /* frees the picture; all zero is fine */

#endif
