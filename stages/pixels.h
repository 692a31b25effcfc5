/* Pictures as stages take them: u8 records in CHW or HWC, or without channels, (H,W).  Implemented
   in pixels.c and mirror.c. */
#ifndef MR_STAGES_PIXELS_H
#define MR_STAGES_PIXELS_H

#include "pipeline/stage.h"
#include "stages/grown.h"

enum { MR_CHANNELS_MAX = 4 };

/* The setting that selects the field of the pictures: its row, in a state of type `state`. */
/* clang-format off */
#define MR_PIXELS_OPT(state, member)                                                              \
  {.name = "field", .type = MR_OPT_STR, .offset = offsetof(state, member),                        \
   .help = "Field of the pictures; needed where several fields could be pictures."}
/* clang-format on */

typedef struct mr_pixels {
  int C, H, W;
  bool hwc;    /* channels last; false for one channel, where both layouts are alike */
  int h_at;    /* the field's dimension that is H; W follows */
  int field;   /* index of the pictures' field */
  bool varies; /* each picture has its own H and W, and these are 0 */
} mr_pixels_t;

/* In plan of a map: finds the pictures of input 0, in the field called `field` or, if NULL, the
   only field that could hold pictures, and declares that the stage writes it.  MR_OK; MR_ERR_SHAPE
   with a sentence if there is no such field or several, or if the pictures have more than
   channels_max channels or a side beyond side_max. */
mr_err_t mr_pixels_plan(mr_stage_t *s, const char *field, int channels_max, int side_max,
                        mr_pixels_t *out);

/* The same, with the same failures, for pictures of one size or of different sizes: of these,
   always HWC, H and W are 0. */
mr_err_t mr_pixels_plan_any(mr_stage_t *s, const char *field, int channels_max, int side_max,
                            mr_pixels_t *out);

/* The same for field number `at` of input 0, which the stage has chosen: pictures of any dtype,
   (H,W) or of three dimensions with a layout. */
mr_err_t mr_pixels_plan_field(mr_stage_t *s, int at, int channels_max, int side_max,
                              mr_pixels_t *out);

/* Planes of pixels that a value holds, and channels of each: 1 and C, or C and 1 for CHW. */
static inline int mr_pixels_planes(const mr_pixels_t *px) { return px->hwc ? 1 : px->C; }
static inline int mr_pixels_each(const mr_pixels_t *px) { return px->hwc ? px->C : 1; }

/* Height and width of a value of the field. */
void mr_pixels_size(const mr_pixels_t *px, const mr_value_t *v, int *h, int *w);

/* The pixels of a box of one plane, with MR_PART_SLACK bytes behind them: those of a picture that
   varies as mr_picture_part gives them, others copied to the worker's memory.  MR_OK, or a failure
   with its sentence in s->diag: MR_ERR_DATA, MR_ERR_NOMEM. */
mr_err_t mr_pixels_part(mr_stage_t *s, const mr_pixels_t *px, const mr_value_t *v, int plane,
                        mr_box_t box, mr_grown_t *copy, mr_part_t *out);

/* "224" or "224x320", height first: the sides of a setting; *w = 0 for a single number.  MR_OK, or
   MR_ERR_CONFIG with a sentence of the stage about setting `size`. */
mr_err_t mr_pixels_sides(mr_stage_t *s, const char *text, int *h, int *w);

/* split: (H,W,C) to (C,H,W), rows `stride` bytes apart in src.  join: (C,H,W) to (H,W,C).  dst has
   no gaps; C in [1,MR_CHANNELS_MAX]. */
void mr_pixels_split(const uint8_t *src, int stride, int H, int W, int C, uint8_t *dst);
void mr_pixels_join(const uint8_t *src, int H, int W, int C, uint8_t *dst);

/* ---- mirror.c ---- */

/* Mirrors rows of pixels left to right.  src, dst: (rows,W,C) u8, no overlap. */
void mr_mirror(const uint8_t *src, uint8_t *dst, int rows, int W, int C);

/* The same for C == 1 and W >= 32 on a machine with AVX2: 96 rows of 32 take 0.03 us, in the plain
   loop 1.1 us. */
void mr__mirror_avx2(const uint8_t *src, uint8_t *dst, int rows, int W);

/* The same with AVX2 for C = 3. */
void mr__mirror3_avx2(const uint8_t *src, uint8_t *dst, int rows, int W);

#endif
