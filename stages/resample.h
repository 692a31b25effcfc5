/* Pillow's Image.resize of u8 pictures, HWC, from any size to any, by any of its filters, bit for
   bit.

   One direction is resized and rounded to u8, then the other, with weights of 22 bits.  Pillow 13
   goes down the columns first where the height shrinks by more than twice what the width does;
   Pillow 12 and before always go across first.  A pass whose size does not change is left out.

   Weights are made for each picture.  For pictures of one small size pil_resize.h keeps tables.

   Implemented in resample.c, resample_plane.c, and resample_avx2.c and resample_vnni.c for the fast
   passes. */
#ifndef MR_STAGES_RESAMPLE_H
#define MR_STAGES_RESAMPLE_H

#include <stdbool.h>

#include "base/hint.h"
#include "stages/grown.h"

typedef enum mr_filter {
  MR_FILTER_BILINEAR,
  MR_FILTER_BICUBIC,
  MR_FILTER_LANCZOS,
  MR_FILTER_HAMMING,
  MR_FILTER_BOX,
  MR_FILTER_NEAREST,
} mr_filter_t;

/* Other frameworks' words for them. */
extern const mr_hint_t mr_filter_hints[];

#define MR_FILTERS "bilinear|bicubic|lanczos|hamming|box|nearest" /* in that order */

/* A resize of whole pictures; sides in [1,65535], C in {1,3}. */
typedef struct mr_resize {
  mr_filter_t filter;
  int in_h, in_w, out_h, out_w, C;
  bool across_first; /* as Pillow before 13 */
} mr_resize_t;

/* Weights of one pass, for the pixels of a box alone. */
typedef struct mr_weights {
  int n;           /* pixels */
  int taps;        /* a multiple of 4, at least as many as a pixel has */
  int *first;      /* [n] first input pixel */
  int *count;      /* [n] taps in use, at least 1 */
  int32_t *q;      /* [n][taps] weights times 2^22, zeros after count */
  int16_t *halves; /* [n][taps / 4][high, low][4]: q >> 11 and q & 2047 */
  int8_t *bytes;   /* [n][taps / 4][3][4]: q as three signed bytes, the lowest first */
} mr_weights_t;

/* Memory of one worker; zeros at first. */
typedef struct mr_resampler {
  mr_grown_t memory[2], rows, turned;
  mr_weights_t down, across;
  bool plain; /* never a fast path: their oracle */
  bool avx2;  /* no faster path than AVX2's */
} mr_resampler_t;

void mr_resampler_free(mr_resampler_t *r);

/* Prepares the box `out` of a resize's result, h, w >= 1 and inside it.  Sets *need to the box of
   the source that its pixels depend on.  MR_OK or MR_ERR_NOMEM. */
mr_err_t mr_resample_begin(mr_resampler_t *r, const mr_resize_t *how, mr_box_t out, mr_box_t *need,
                           mr_diag_t *diag);

/* Makes the prepared box: need's pixels are at src, and those of the result go to dst without gaps,
   (out.h, out.w, C).  MR_OK or MR_ERR_NOMEM. */
mr_err_t mr_resample(mr_resampler_t *r, const mr_resize_t *how, mr_box_t need, mr_part_t src,
                     uint8_t *dst, mr_diag_t *diag);

/* Samples along one direction of a plane: output x in [0,n) lies at begin + (x + 1/2) * scale and
   depends on inputs in [lo,hi) alone. */
typedef struct mr_span {
  double begin, scale;
  int lo, hi, n;
} mr_span_t;

/* Resizes a plane of one channel bilinearly with antialias, from any places of it: src begins at
   row `top` and column `left`, and has MR_PART_SLACK readable bytes behind it.  dst: (down->n,
   across->n). MR_OK or MR_ERR_NOMEM. */
mr_err_t mr_resample_plane(mr_resampler_t *r, const mr_span_t *down, const mr_span_t *across,
                           mr_part_t src, int top, int left, uint8_t *dst, mr_diag_t *diag);

/* The weights of a span, bilinear, in memory m.  MR_OK or MR_ERR_NOMEM. */
mr_err_t mr__resample_span(const mr_span_t *s, mr_grown_t *m, mr_weights_t *t, mr_diag_t *diag);

/* The passes, plain, with AVX2 and with AVX-512 and VNNI.  down: from rows of `bytes` bytes to t->n
   such rows; across: from h rows of pixels to rows of t->n pixels.  Inputs begin at row or pixel
   `base`; reads may exceed the last row by MR_PART_SLACK bytes.  The fast passes go across for C ==
   3 alone. */
void mr__resample_down(const mr_weights_t *t, int base, mr_part_t src, size_t bytes, uint8_t *dst);
void mr__resample_across(const mr_weights_t *t, int base, mr_part_t src, int C, int h,
                         uint8_t *dst);
void mr__resample_down_avx2(const mr_weights_t *t, int base, mr_part_t src, size_t bytes,
                            uint8_t *dst);
void mr__resample_across_avx2(const mr_weights_t *t, int base, mr_part_t src, int h, uint8_t *dst);
void mr__resample_down_vnni(const mr_weights_t *t, int base, mr_part_t src, size_t bytes,
                            uint8_t *dst);
void mr__resample_across_vnni(const mr_weights_t *t, int base, mr_part_t src, int h, uint8_t *dst);
bool mr__resample_has_vnni(void);

/* The pass down, by the best of these that r and the machine allow. */
void mr__resample_down_best(const mr_resampler_t *r, const mr_weights_t *t, int base, mr_part_t src,
                            size_t bytes, uint8_t *dst);

#endif
