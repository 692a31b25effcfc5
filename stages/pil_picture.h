/* Random crops of whole pictures: the box of torchvision's RandomResizedCrop.get_params, and crop
   and resize as Pillow's Image.crop and Image.resize do, in any layout. */
#ifndef MR_STAGES_PIL_PICTURE_H
#define MR_STAGES_PIL_PICTURE_H

#include "stages/pil_resize.h"
#include "stages/pixels.h"

/* ---- the box ---- */

typedef struct mr_crop_conf {
  double scale[2];     /* share of the picture's area, (0,1] */
  double log_ratio[2]; /* natural logarithms of the aspect ratios */
} mr_crop_conf_t;

/* Computes height and width of a box of this area and aspect (width over height), rounded half to
   even.  False if it is empty or larger than the picture.  i and j stay unset. */
bool mr_crop_size(int H, int W, double area, double aspect, mr_box_t *box);

/* The box used after ten failed tries: the central crop nearest to the wanted ratios, at least
   1x1. */
mr_box_t mr_crop_fallback(int H, int W, double ratio_lo, double ratio_hi);

/* ---- crop and resize ---- */

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
