/* What a stage of pictures takes: u8 records in CHW or HWC, or without channels, (H,W). */
#ifndef MR_STAGES_PIXELS_H
#define MR_STAGES_PIXELS_H

#include "pipeline/stage.h"

enum { MR_CHANNELS_MAX = 4 };

typedef struct mr_pixels {
  int C, H, W;
  bool hwc; /* channels last; false where there is one channel, since both layouts are then alike */
  int h_at; /* which dimension of the field is H; W follows */
} mr_pixels_t;

/* In plan: the pictures of input 0.  MR_ERR_SHAPE with a sentence if they are none, have more than
   channels_max channels, or a side beyond side_max. */
mr_err_t mr_pixels_plan(mr_stage_t *s, int channels_max, int side_max, mr_pixels_t *out);

/* (H,W,C) to (C,H,W), rows `stride` bytes apart in src, and back, dst without gaps.  C in
   [1,MR_CHANNELS_MAX]. */
void mr_pixels_split(const uint8_t *src, int stride, int H, int W, int C, uint8_t *dst);
void mr_pixels_join(const uint8_t *src, int H, int W, int C, uint8_t *dst);

#endif
