/* What a stage of pictures takes: u8 records in CHW or HWC, or without channels, (H,W). */
#ifndef MR_STAGES_PIXELS_H
#define MR_STAGES_PIXELS_H

#include "pipeline/stage.h"

enum { MR_CHANNELS_MAX = 4 };

/* The setting by which such a stage is told its field: its row, in a state of type `state`. */
/* clang-format off */
#define MR_PIXELS_OPT(state, member)                                                              \
  {.name = "field", .type = MR_OPT_STR, .offset = offsetof(state, member),                        \
   .help = "Field of the pictures; needed where several fields could be pictures."}
/* clang-format on */

typedef struct mr_pixels {
  int C, H, W;
  bool hwc; /* channels last; false where there is one channel, since both layouts are then alike */
  int h_at; /* which dimension of the field is H; W follows */
  int field; /* which one holds them */
} mr_pixels_t;

/* In plan of a map: the pictures of input 0, which the stage then writes: those of the field of
   this name, NULL: of the only one that could be pictures.  MR_ERR_SHAPE with a sentence if there
   are none or several, or if they have more than channels_max channels or a side beyond side_max.
 */
mr_err_t mr_pixels_plan(mr_stage_t *s, const char *field, int channels_max, int side_max,
                        mr_pixels_t *out);

/* (H,W,C) to (C,H,W), rows `stride` bytes apart in src, and back, dst without gaps.  C in
   [1,MR_CHANNELS_MAX]. */
void mr_pixels_split(const uint8_t *src, int stride, int H, int W, int C, uint8_t *dst);
void mr_pixels_join(const uint8_t *src, int H, int W, int C, uint8_t *dst);

#endif
