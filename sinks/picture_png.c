/* PNG by libpng's simplified interface, in one call from RGB to a block of bytes.  It is a file of
   its own because libpng may be left out of a build; without it, the page and event files have
   numbers only. */
#include <png.h>
#include <stdlib.h>

#include "sinks/picture.h"

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
