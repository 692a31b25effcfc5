/* Resized parts of JPEG pictures, made from planes of luma and chroma: decode mode=fast. */
#ifndef MR_STAGES_JPEG_RESIZED_H
#define MR_STAGES_JPEG_RESIZED_H

#include <stdbool.h>
#include <stdio.h>

/* after stdio.h */
#include <jpeglib.h>

#include "stages/resample.h"

enum { MR_JPEG_PLANES = 3 };

/* The samples of a component. */
typedef struct mr_jpeg_plane {
  mr_part_t samples;   /* from row `top` and column `left` on */
  int top, left, h, w; /* h, w: of the whole component */
  int down, across;    /* pixels of the picture a sample: 1 or 2 */
} mr_jpeg_plane_t;

typedef struct mr_jpeg_planes {
  int n; /* 1: grey; 3: Y, Cb, Cr */
  mr_jpeg_plane_t plane[MR_JPEG_PLANES];
} mr_jpeg_planes_t;

/* Whether a picture's colours and layout are such that it is read as planes: known from the
   header. */
bool mr_jpeg_has_planes(const struct jpeg_decompress_struct *c);

/* What a worker keeps to resize planes; zeros at first. */
typedef struct mr_jpeg_resizer {
  mr_resampler_t resampler;
  mr_grown_t plane[MR_JPEG_PLANES];
} mr_jpeg_resizer_t;

void mr_jpeg_resizer_free(mr_jpeg_resizer_t *r);

/* Makes a part of the resized picture, RGB without gaps, from planes that have the samples of
   how->from.  MR_OK or MR_ERR_NOMEM. */
mr_err_t mr_jpeg_resized(mr_jpeg_resizer_t *r, const mr_jpeg_planes_t *p, const mr_scaling_t *how,
                         uint8_t *to, mr_diag_t *diag);

#endif
