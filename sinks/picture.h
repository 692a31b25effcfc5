/* Pictures as PNG, for pages and event files. */
#ifndef MR_SINKS_PICTURE_H
#define MR_SINKS_PICTURE_H

#include <stddef.h>

#include "pipeline/metrics.h"

/* rgb: (height,width,3).  The PNG (heap) and its size; NULL when memory is short. */
void *mr_png_of(const uint8_t *rgb, int width, int height, size_t *n);

/* The confusion matrix as a heat map, a square a cell, each row scaled to its own sum. */
void *mr_png_of_confusion(const mr_metrics_t *r, int *side, size_t *n);

#endif
