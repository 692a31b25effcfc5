/* Crops and resizes whole pictures as Pillow's Image.crop and Image.resize do, in any layout. */
#ifndef MR_STAGES_PIL_PICTURE_H
#define MR_STAGES_PIL_PICTURE_H

#include "stages/pil_resize.h"
#include "stages/pixels.h"

typedef struct mr_pil_picture {
  mr_pil_t pil;
  mr_pixels_t in;
  bool alpha; /* the last of four channels is alpha, which weights the others */
} mr_pil_picture_t;

/* Bytes of scratch that mr_pil_picture needs for boxes of pictures `in`; above 0, cannot fail. */
size_t mr_pil_picture_scratch(const mr_pixels_t *in, int out);

/* Resizes the box of src, a picture p->in, to dst: (out,out) pixels in the same layout, no overlap.
   scratch: mr_pil_picture_scratch bytes, 16-aligned, of the calling thread.  p is read-only: any
   thread. */
void mr_pil_picture(const mr_pil_picture_t *p, const uint8_t *src, mr_box_t box, uint8_t *dst,
                    void *scratch);

#endif
