/* A picture whose height and width are its own: the value of a field that varies
   (mr_field_t.varies).

   Pixels are made when a stage asks for them, and only those it asks for: a crop behind a decoder
   needs a part of the picture alone.  They are u8, HWC. */
#ifndef MR_PIPELINE_PICTURE_H
#define MR_PIPELINE_PICTURE_H

#include <stddef.h>
#include <stdint.h>

#include "base/decls.h"
#include "base/err.h"

MR_BEGIN_DECLS

typedef struct mr_box {
  int i, j, h, w; /* top row, left column, height and width, inside the picture */
} mr_box_t;

/* Bytes behind the last pixel of a part that may be read, so that loads need not end at it. */
enum { MR_PART_SLACK = 64 };

/* The pixels of a box: row y begins at data + y * stride. */
typedef struct mr_part {
  const uint8_t *data;
  size_t stride; /* bytes */
} mr_part_t;

/* A part of a resized picture: pixels `out` of the h x w ones that the box `from` becomes. */
typedef struct mr_scaling {
  mr_box_t from;
  int h, w;
  mr_box_t out;
} mr_scaling_t;

typedef struct mr_picture mr_picture_t;
struct mr_picture {
  int h, w, C; /* h, w: at least 1; C in [1,4] */
  void *maker; /* the worker's own, of the stage that made the picture */
  mr_err_t (*part)(const mr_picture_t *p, mr_box_t box, mr_part_t *out);

  /* NULL, or makes a part of the picture, resized bilinearly with antialias, and writes it to `to`
     without gaps: faster than `part` and a resize, and not quite its pixels.  Fails as `part`. */
  mr_err_t (*resized)(const mr_picture_t *p, const mr_scaling_t *how, uint8_t *to);
};

/* Makes the pixels of a box with h, w >= 1 inside the picture.  *out belongs to the stage that made
   the picture, and lives until the next call for the same picture or that stage's next record.
   MR_OK.  MR_ERR_DATA with a sentence of that stage if the picture cannot be decoded: the same for
   every box, so that it does not depend on a draw whether a record is bad.  MR_ERR_NOMEM.  In the
   thread that runs the chain. */
static inline mr_err_t mr_picture_part(const mr_picture_t *p, mr_box_t box, mr_part_t *out) {
  return p->part(p, box, out);
}

MR_END_DECLS

#endif
