/* Pictures as stages take them: u8 records in CHW or HWC, or without channels, (H,W). */
#ifndef MR_STAGES_PIXELS_H
#define MR_STAGES_PIXELS_H

#include "pipeline/stage.h"

enum { MR_CHANNELS_MAX = 4 };

/* The setting that selects the field of the pictures: its row, in a state of type `state`. */
/* clang-format off */
#define MR_PIXELS_OPT(state, member)                                                              \
  {.name = "field", .type = MR_OPT_STR, .offset = offsetof(state, member),                        \
   .help = "Field of the pictures; needed where several fields could be pictures."}
/* clang-format on */

typedef struct mr_pixels {
  int C, H, W;
  bool hwc;  /* channels last; false for one channel, where both layouts are alike */
  int h_at;  /* the field's dimension that is H; W follows */
  int field; /* index of the pictures' field */
} mr_pixels_t;

/* In plan of a map: finds the pictures of input 0, in the field called `field` or, if NULL, the
   only field that could hold pictures, and declares that the stage writes it.  MR_OK; MR_ERR_SHAPE
   with a sentence if there is no such field or several, or if the pictures have more than
   channels_max channels or a side beyond side_max. */
mr_err_t mr_pixels_plan(mr_stage_t *s, const char *field, int channels_max, int side_max,
                        mr_pixels_t *out);

/* split: (H,W,C) to (C,H,W), rows `stride` bytes apart in src.  join: (C,H,W) to (H,W,C).  dst has
   no gaps; C in [1,MR_CHANNELS_MAX]. */
void mr_pixels_split(const uint8_t *src, int stride, int H, int W, int C, uint8_t *dst);
void mr_pixels_join(const uint8_t *src, int H, int W, int C, uint8_t *dst);

#endif
