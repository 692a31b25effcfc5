/* The box of a random resized crop: torchvision's RandomResizedCrop.get_params. */
#ifndef MR_STAGES_CROP_BOX_H
#define MR_STAGES_CROP_BOX_H

#include "stages/pil_resize.h"

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

#endif
