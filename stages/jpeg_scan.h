/* Pixels of JPEG files by our own decoder (jpeg.h), where it is sure of them. */
#ifndef MR_STAGES_JPEG_SCAN_H
#define MR_STAGES_JPEG_SCAN_H

#include <stdbool.h>
#include <stdio.h>

/* after stdio.h */
#include <jpeglib.h>

#include "stages/jpeg_resized.h"

/* What a worker keeps; zeros at first, freed by mr_jpeg_scan_free. */
typedef struct mr_jpeg_scan mr_jpeg_scan_t;

/* Heap, the caller's until mr_jpeg_scan_free; NULL without memory. */
mr_jpeg_scan_t *mr_jpeg_scan_create(void);
void mr_jpeg_scan_free(mr_jpeg_scan_t *s); /* NULL is fine */

/* Decodes a box of the picture whose header c has just read; bytes [0,n) follow the header.  Writes
   it to `to` as RGB without gaps, and sets *done.  *done is false for what libjpeg must decode:
   other modes, layouts and colours, and files whose scan is damaged as far as the box needs it.
   MR_OK, or MR_ERR_NOMEM with a sentence. */
mr_err_t mr_jpeg_scan_read(mr_jpeg_scan_t *s, const struct jpeg_decompress_struct *c,
                           const uint8_t *bytes, size_t n, mr_box_t box, mr_grown_t *to, bool *done,
                           mr_diag_t *diag);

/* Decodes the samples that the pixels of a box depend on, in memory of s until its next use.
   Otherwise as mr_jpeg_scan_read, of which it is the first half. */
mr_err_t mr_jpeg_scan_planes(mr_jpeg_scan_t *s, const struct jpeg_decompress_struct *c,
                             const uint8_t *bytes, size_t n, mr_box_t box, mr_jpeg_planes_t *out,
                             bool *done, mr_diag_t *diag);

#endif
