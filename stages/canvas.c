/* The picture that a sequence of operations changes.  If its pixels are interleaved already, it is
   kept in the memory of the output, so that an operation in place costs no second copy; planes are
   interleaved in the worker's memory and split again at the end. */
#include "stages/canvas.h"

#include <string.h>

enum { SIDE_MAX = 8192 }; /* so that coordinates fit fixed point with 16 bits after the point */

mr_err_t mr_canvas_plan(mr_stage_t *s, const char *field, mr_pixels_t *px) {
  MR_TRY(mr_pixels_plan(s, field, 3, SIDE_MAX, px));
  if (px->C == 2)
    return mr_stage_fail(s, MR_ERR_SHAPE, "takes pictures of one or three channels, not of two");
  s->out_spec[0] = s->in_spec[0];
  s->scratch_bytes = sizeof(mr_canvas_t);
  return MR_OK;
}

mr_err_t mr_canvas_open(mr_stage_t *s, const mr_pixels_t *px, const mr_value_t *v, uint8_t *out) {
  mr_canvas_t *c = s->scratch;
  c->h = px->H, c->w = px->W, c->C = px->C;
  size_t n = mr_canvas_size(c);
  bool together = px->hwc || px->C == 1;
  MR_TRY(mr_grow(&c->memory, together ? n : 2 * n, s->diag));
  c->spare = c->memory.at;
  c->at = together ? out : c->memory.at + n;
  if (together)
    memcpy(c->at, v->data, n);
  else
    mr_pixels_join(v->data, c->h, c->w, c->C, c->at);
  return MR_OK;
}

void mr_canvas_close(mr_stage_t *s, const mr_pixels_t *px, uint8_t *out) {
  mr_canvas_t *c = s->scratch;
  if (!px->hwc && px->C > 1)
    mr_pixels_split(c->at, c->w * c->C, c->h, c->w, c->C, out);
  else if (c->at != out)
    memcpy(out, c->at, mr_canvas_size(c));
  c->at = c->spare = NULL;
}

void mr_canvas_leave(mr_stage_t *s) { mr_grown_free(&((mr_canvas_t *)s->scratch)->memory); }
