#include "sinks/picture.h"

#include <png.h>
#include <stdlib.h>

enum { CELL = 24 }; /* pixels a side */

void *mr_png_of(const uint8_t *rgb, int width, int height, size_t *n) {
  png_image image = {.version = PNG_IMAGE_VERSION,
                     .width = (png_uint_32)width,
                     .height = (png_uint_32)height,
                     .format = PNG_FORMAT_RGB};
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  void *out = malloc(size);
  if (out && !png_image_write_to_memory(&image, out, &size, 0, rgb, 0, NULL)) {
    free(out);
    out = NULL;
  }
  *n = out ? size : 0;
  return out;
}

/* White to blue by the share of the row. */
static void paint(uint8_t *rgb, int side, int row, int column, double share) {
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
      paint(rgb, *side, t, g, sum ? (double)r->confusion[t * C + g] / (double)sum : 0);
  }
  void *png = mr_png_of(rgb, *side, *side, n);
  free(rgb);
  return png;
}
