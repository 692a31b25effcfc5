/* A PNG file as Pillow 13 reads it: which chunks make a file bad, which do not, and where the
   compressed rows lie.  libpng refuses other files than Pillow: one without its palette, with rows
   too few, with a wrong checksum behind its header. */
#ifndef MR_STAGES_PNG_FILE_H
#define MR_STAGES_PNG_FILE_H

#include <stdbool.h>

#include "stages/grown.h"

/* How the bytes of a row become pixels. */
typedef struct mr_png_mode {
  uint8_t depth, colour; /* as in the header */
  uint8_t bits;          /* of a pixel */
} mr_png_mode_t;

enum { MR_PNG_GREY, MR_PNG_RGB = 2, MR_PNG_INDEX, MR_PNG_GREY_ALPHA };

/* What is known of a file.  It borrows the file's bytes; texts is freed by mr_grown_free. */
typedef struct mr_png_file {
  const uint8_t *bytes;
  size_t n, at;
  const mr_png_mode_t *mode; /* NULL: none so far */
  uint32_t w, h;
  bool interlaced;
  bool bare; /* the rows are of indices, without a palette before them */
  const uint8_t
      *palette; /* [n_palette], three for each colour; NULL: none.  It counts for grey pixels too */
  size_t n_palette;
  bool one_clear;   /* of a palette one colour is transparent, all others are not */
  bool framed;      /* only the box is in the data */
  uint32_t box[4];  /* x, y, width, height */
  size_t left;      /* bytes of the chunk of data that are not read */
  bool found, over; /* the data; the end */
  bool counted;     /* n_frames is the number of frames */
  bool apart;       /* what is decoded is no frame */
  uint32_t n_frames;
  int64_t sequence; /* of frames; -1: none so far */
  size_t text;      /* characters of all texts */
  mr_grown_t texts; /* room for an unpacked one */
} mr_png_file_t;

/* Reads chunks up to the first data, into *f, whose texts are kept and whose other members are set.
   MR_OK; MR_ERR_DATA for what Pillow does not open; MR_ERR_NOMEM. */
mr_err_t mr_png_open(mr_png_file_t *f, const uint8_t *bytes, size_t n, mr_diag_t *diag);

/* The next bytes of data, of at most 64 KiB, as Pillow reads them: *size of them, at *part.
   MR_ERR_DATA where there are no more. */
mr_err_t mr_png_data(mr_png_file_t *f, const uint8_t **part, size_t *size, mr_diag_t *diag);

/* Reads what lies behind the rows.  MR_OK, MR_ERR_DATA or MR_ERR_NOMEM. */
mr_err_t mr_png_finish(mr_png_file_t *f, mr_diag_t *diag);

/* What a text that is packed by zlib holds, in *to.  MR_OK with its size in *n, and in *whole
   whether it could be unpacked; MR_ERR_DATA: more than 1 MiB, which Pillow refuses; MR_ERR_NOMEM.
 */
mr_err_t mr_png_unpack(const uint8_t *packed, size_t n_packed, mr_grown_t *to, size_t *n,
                       bool *whole, mr_diag_t *diag);

/* Memory for zlib, by malloc. */
void *mr_png_zalloc(void *opaque, unsigned items, unsigned size);
void mr_png_zfree(void *opaque, void *memory);

#endif
