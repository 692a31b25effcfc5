/* Decoders of encoded pictures: one constant a format, each in the file of its name (decode_jpeg.c,
   without.c in a build without its library); decoder.c has what
   they share.

   Pixels are those of Pillow's Image.open(..).convert("RGB"): grey is repeated, CMYK is read as
   Adobe writes it, and alpha is dropped. */
#ifndef MR_STAGES_DECODER_H
#define MR_STAGES_DECODER_H

#include <stdbool.h>

#include "stages/grown.h"

/* What the header of an encoded picture says. */
typedef struct mr_head {
  int h, w;     /* at least 1 */
  int turned;   /* EXIF orientation, [1,8]; 1: upright, or not asked for */
  bool resizes; /* `resized` takes the picture; decided by its header alone */
} mr_head_t;

typedef struct mr_decoder_def {
  const char *name;  /* "JPEG" */
  const char *needs; /* the optional library (base/feature.h); without it all below but `is` is
                        NULL */

  /* Whether bytes [0,n) begin as a file of this format does. */
  bool (*is)(const uint8_t *bytes, size_t n);

  /* A decoder for one worker, the caller's until destroy.  NULL without memory. */
  void *(*create)(void);
  void (*destroy)(void *d); /* NULL is fine */

  /* Begins with a file, [0,n), which must live until the next begin, and reads its header.  orient:
     look for an orientation.  MR_OK; MR_ERR_DATA for a file that is damaged, cut short or of a kind
     that is not read; MR_ERR_NOMEM. */
  mr_err_t (*begin)(void *d, const uint8_t *bytes, size_t n, bool orient, mr_head_t *head,
                    mr_diag_t *diag);

  /* Decodes at least the pixels of a box of the picture, before it is turned, into memory of `to`
     and the decoder, to which *out points until the next call for d.  Fails as begin does, and for
     one box if and only if for every other one. */
  mr_err_t (*read)(void *d, mr_box_t box, mr_grown_t *to, mr_part_t *out, mr_diag_t *diag);

  /* mr_picture_t.resized of a picture whose head has `resizes`, before it is turned.  Fails as read
     does.  NULL where no head has it. */
  mr_err_t (*resized)(void *d, const mr_scaling_t *how, uint8_t *to, mr_diag_t *diag);
} mr_decoder_def_t;

extern const mr_decoder_def_t mr_decoder_jpeg, mr_decoder_png, mr_decoder_webp;

/* Return whether bytes[0,n) begin as those of the format do. */
bool mr_is_jpeg(const uint8_t *bytes, size_t n);
bool mr_is_png(const uint8_t *bytes, size_t n);
bool mr_is_webp(const uint8_t *bytes, size_t n);

/* Return the orientation, in [1,8], in EXIF data (TIFF, after "Exif\0\0" if there is one) and in
   XMP text, which counts where EXIF has none.  A number of any type of TIFF counts, as in Pillow's
   exif_transpose; one that is no orientation is 1.  0 without any. */
int mr_exif_orientation(const uint8_t *bytes, size_t n);
int mr_xmp_orientation(const uint8_t *bytes, size_t n);

/* Copies a box of h x w RGB pixels, whose rows are `stride` bytes apart, turned upright from an
   orientation in [2,8], to dst without gaps; from 5 on height and width change places. */
void mr_turn(const uint8_t *src, size_t stride, int h, int w, int orientation, uint8_t *dst);

/* Returns the box before turning that becomes `box` of a picture that is h x w before it. */
mr_box_t mr_unturned_box(mr_box_t box, int h, int w, int orientation);

#endif
