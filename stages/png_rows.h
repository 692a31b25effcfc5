/* The rows of a PNG file as RGB. */
#ifndef MR_STAGES_PNG_ROWS_H
#define MR_STAGES_PNG_ROWS_H

#include <zlib.h>

#include "stages/png_file.h"

/* Rows that are being unpacked.  Zeros: none; freed by mr_png_rows_free. */
typedef struct mr_png_rows {
  z_stream z;
  bool ready;       /* z */
  mr_grown_t lines; /* two of them, each with the number of its filter in front */
  uint8_t colour[256][3];
} mr_png_rows_t;

/* Decodes the picture of an opened file into rgb[3 * f->w * f->h] with what Pillow makes of rows
   that are missing, and reads the file to its end.  MR_OK; MR_ERR_DATA for what Pillow does not
   load; MR_ERR_NOMEM. */
mr_err_t mr_png_rows(mr_png_rows_t *r, mr_png_file_t *f, uint8_t *rgb, mr_diag_t *diag);
void mr_png_rows_free(mr_png_rows_t *r);

#endif
