/* Files that tests and fuzz targets make in memory. */
#ifndef MR_TESTS_LOADERS_IMAGE_H
#define MR_TESTS_LOADERS_IMAGE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A growing file in memory. */
typedef struct image {
  uint8_t *at;
  size_t n, cap;
} image_t;

static inline void *image_add(image_t *o, const void *data, size_t n) {
  if (!o->at || o->n + n > o->cap) {
    o->cap = 2 * (o->n + n) + 1;
    o->at = realloc(o->at, o->cap);
    if (!o->at) abort();
  }
  void *to = o->at + o->n;
  if (data)
    memcpy(to, data, n);
  else
    memset(to, 0, n);
  o->n += n;
  return to;
}

#endif
