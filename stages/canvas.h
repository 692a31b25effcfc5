/* The pixels of one picture while operations change them: HWC whatever the layout of the field. */
#ifndef MR_STAGES_CANVAS_H
#define MR_STAGES_CANVAS_H

#include "stages/pixels.h"

/* A worker's; zeros: without memory. */
typedef struct mr_canvas {
  int h, w, C;       /* C: 1 or 3 */
  uint8_t *at;       /* (h,w,C) */
  uint8_t *spare;    /* as large, for operations that cannot work in place; they swap the two */
  mr_grown_t memory; /* of the canvas */
} mr_canvas_t;

/* In plan of a map: mr_pixels_plan for pictures of one or three channels, and scratch for one
   mr_canvas_t.  MR_OK, or MR_ERR_SHAPE with a sentence. */
mr_err_t mr_canvas_plan(mr_stage_t *s, const char *field, mr_pixels_t *px);

/* In run: copies the picture v onto s->scratch.  out is the room of the output value, in which the
   canvas may work.  MR_OK; MR_ERR_NOMEM with a sentence. */
mr_err_t mr_canvas_open(mr_stage_t *s, const mr_pixels_t *px, const mr_value_t *v, uint8_t *out);

/* In run, after mr_canvas_open: moves the pixels to out in the layout of the field.  Cannot fail.
 */
void mr_canvas_close(mr_stage_t *s, const mr_pixels_t *px, uint8_t *out);

/* The leave of such a stage. */
void mr_canvas_leave(mr_stage_t *s);

/* Bytes of the picture. */
static inline size_t mr_canvas_size(const mr_canvas_t *c) {
  return (size_t)c->h * (size_t)c->w * (size_t)c->C;
}

static inline void mr_canvas_swap(mr_canvas_t *c) {
  uint8_t *at = c->at;
  c->at = c->spare, c->spare = at;
}

#endif
