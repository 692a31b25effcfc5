/* resized-crop: cuts a random part out of each picture and resizes it: torchvision's
   RandomResizedCrop with the record's own generator.  With scale=1:1 the record needs no generator:
   the box is the whole picture, or as much of its middle as the ratios allow.

   Pictures of one size are resized bilinearly with tables of weights (pil_resize.h), others by
   weights made for each (resample.h). */
#include <assert.h>
#include <math.h>
#include <stdio.h>

#include "pipeline/stage_map.h"
#include "stages/pil_picture.h"
#include "stages/resample.h"

enum {
  PILLOW_13,
  PILLOW_12,
  STACK = 65536 /* scratch up to this many bytes is on the stack */
};

typedef struct resized_crop {
  const char *field;
  int64_t size;
  double scale[2], ratio[2], log_ratio[2];
  int pillow, filter;
  bool tables;
  mr_pil_picture_t pil;
} resized_crop_t;

/* What a worker keeps without tables: its scratch. */
typedef struct resized_crop_worker {
  mr_resampler_t resampler;
  mr_grown_t copy;
} resized_crop_worker_t;

static mr_err_t resized_crop_plan(mr_stage_t *s) {
  resized_crop_t *t = s->state;
  const mr_spec_t *in = &s->in_spec[0];
  mr_pixels_t *px = &t->pil.in;
  int channels = t->filter == MR_FILTER_BILINEAR ? MR_CHANNELS_MAX : 3;
  MR_TRY(mr_pixels_plan_any(s, t->field, channels, MR_PIL_SIDE_MAX, px));
  t->tables = !px->varies && t->filter == MR_FILTER_BILINEAR;
  size_t scratch = t->tables ? mr_pil_picture_scratch(px, (int)t->size) : 0;
  s->scratch_bytes = !t->tables ? sizeof(resized_crop_worker_t) : scratch > STACK ? scratch : 0;
  for (int k = 0; k < 2; k++) t->log_ratio[k] = log(t->ratio[k]);
  s->out_spec[0] = *in;
  s->out_spec[0].field[px->field].varies = false;
  int64_t *dim = s->out_spec[0].field[px->field].dim;
  dim[px->h_at] = dim[px->h_at + 1] = t->size;
  bool whole = t->scale[0] == 1 && t->scale[1] == 1;
  return whole ? MR_OK : mr_needs_generator(s, "scale=1:1");
}

static mr_err_t resized_crop_open(mr_stage_t *s) {
  resized_crop_t *t = s->state;
  int side = t->pil.in.H > t->pil.in.W ? t->pil.in.H : t->pil.in.W;
  if (!t->tables) return MR_OK;
  if (mr_pil_init(&t->pil.pil, side, (int)t->size, true))
    return t->pil.pil.across_first = t->pillow == PILLOW_12, MR_OK;
  return mr_stage_no_memory(s, "the weights of %d boxes", side);
}

static void resized_crop_close(mr_stage_t *s) {
  resized_crop_t *t = s->state;
  mr_pil_fini(&t->pil.pil);
}

static void resized_crop_leave(mr_stage_t *s) {
  resized_crop_worker_t *w = s->scratch;
  if (((const resized_crop_t *)s->state)->tables) return;
  mr_resampler_free(&w->resampler);
  mr_grown_free(&w->copy);
}

static mr_box_t resized_crop_draw_box(const resized_crop_t *t, int H, int W, mr_philox_t *g) {
  mr_box_t b;
  for (int k = 0; k < 10; k++) {
    double area = (double)H * W * mr_philox_uniform(g, t->scale[0], t->scale[1]);
    double aspect = exp(mr_philox_uniform(g, t->log_ratio[0], t->log_ratio[1]));
    if (!mr_crop_size(H, W, area, aspect, &b)) continue;
    b.i = (int)mr_philox_integers(g, 0, H - b.h + 1);
    b.j = (int)mr_philox_integers(g, 0, W - b.w + 1);
    return b;
  }
  return mr_crop_fallback(H, W, t->ratio[0], t->ratio[1]);
}

/* Without tables. */
static mr_err_t resized_crop_resample(mr_stage_t *s, const mr_value_t *from, mr_box_t b,
                                      uint8_t *to) {
  const resized_crop_t *t = s->state;
  const mr_pixels_t *px = &t->pil.in;
  resized_crop_worker_t *w = s->scratch;
  int out = (int)t->size, each = mr_pixels_each(px);
  mr_resize_t how = {.filter = (mr_filter_t)t->filter,
                     .in_h = b.h,
                     .in_w = b.w,
                     .out_h = out,
                     .out_w = out,
                     .C = each,
                     .across_first = t->pillow == PILLOW_12};
  mr_box_t need;
  const mr_picture_t *p = px->varies ? from->data : NULL;
  if (p && p->resized && t->filter == MR_FILTER_BILINEAR)
    return p->resized(p, &(mr_scaling_t){b, out, out, {.h = out, .w = out}}, to);
  MR_TRY(mr_resample_begin(&w->resampler, &how, (mr_box_t){.h = out, .w = out}, &need, s->diag));
  mr_box_t read = {b.i + need.i, b.j + need.j, need.h, need.w};
  for (int k = 0; k < mr_pixels_planes(px); k++, to += (size_t)out * (size_t)out * (size_t)each) {
    mr_part_t src;
    MR_TRY(mr_pixels_part(s, px, from, k, read, &w->copy, &src));
    MR_TRY(mr_resample(&w->resampler, &how, need, src, to, s->diag));
  }
  return MR_OK;
}

static mr_err_t resized_crop_map(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) {
  const resized_crop_t *t = s->state;
  const mr_value_t *from = &in->field[t->pil.in.field];
  mr_value_t *to = &out->field[t->pil.in.field];
  mr_box_t b;
  int H, W;
  mr_pixels_size(&t->pil.in, from, &H, &W);
  if (in->rng) {
    b = resized_crop_draw_box(t, H, W, in->rng);
    mr_draw_note(out,
                 (uint64_t)b.i | (uint64_t)b.j << 16 | (uint64_t)b.h << 32 | (uint64_t)b.w << 48);
  } else {
    b = mr_crop_fallback(H, W, t->ratio[0], t->ratio[1]);
  }
  if (!t->tables) return resized_crop_resample(s, from, b, to->data);
  if (b.h == t->size && b.w == t->size && b.h == H && b.w == W) {
    *to = *from;
    return MR_OK;
  }
  _Alignas(64) uint8_t stack[STACK];
  mr_pil_picture(&t->pil, from->data, b, to->data, s->scratch_bytes ? s->scratch : stack);
  return MR_OK;
}

static void resized_crop_draw_text(const mr_stage_t *s, uint64_t what, char *text, size_t n) {
  unsigned i = what & 0xFFFF, j = what >> 16 & 0xFFFF, h = what >> 32 & 0xFFFF,
           w = what >> 48 & 0xFFFF;
  snprintf(text, n, "rows %u-%u, columns %u-%u", i, i + h - 1, j, j + w - 1);
}

static const mr_opt_t resized_crop_opts[] = {
    {.name = "size",
     .hint = "imgsize imagesize inputsize resolution outputsize cropsize",
     .type = MR_OPT_INT,
     .offset = offsetof(resized_crop_t, size),
     .unit = "pixels",
     .def = "32",
     .lo = 1,
     .hi = MR_PIL_SIDE_MAX,
     .positional = 1,
     .help = "Height and width of the output pictures."},
    {.name = "scale",
     .type = MR_OPT_RANGE,
     .offset = offsetof(resized_crop_t, scale),
     .unit = "area",
     .def = "0.08:1.0",
     .lo = 1e-6,
     .hi = 1,
     .help = "Share of the picture's area that a box covers, drawn uniformly."},
    {.name = "ratio",
     .type = MR_OPT_RANGE,
     .offset = offsetof(resized_crop_t, ratio),
     .unit = "width/height",
     .def = "0.75:1.3333333333333333",
     .lo = 1e-3,
     .hi = 1e3,
     .help = "Aspect ratio of a box, drawn uniformly in its logarithm."},
    {.name = "alpha",
     .type = MR_OPT_BOOL,
     .offset = offsetof(resized_crop_t, pil.alpha),
     .def = "true",
     .help = "Treats the fourth of four channels as alpha, which weights the others, as Pillow "
             "does for RGBA; false: treats it as another channel."},
    {.name = "filter",
     .hint = "interpolation interptype interpolationmode interpmethod resample method",
     .values = mr_filter_hints,
     .type = MR_OPT_ENUM,
     .offset = offsetof(resized_crop_t, filter),
     .def = "bilinear",
     .choices = MR_FILTERS,
     .help = "Pillow's filter."},
    {.name = "pillow",
     .type = MR_OPT_ENUM,
     .offset = offsetof(resized_crop_t, pillow),
     .def = "13",
     .choices = "13|12",
     .help = "Pillow version whose bytes to reproduce: 13 resizes tall boxes vertically first, 12 "
             "and earlier always horizontally first."},
    MR_PIXELS_OPT(resized_crop_t, field),
    {0}};

static const mr_hint_t resized_crop_words[] = {
    {"randomresizedcrop randomresizedcroprgbimagedecoder rrc", "resized-crop size=224", NULL}, {0}};

const mr_stage_def_t mr_stage_resized_crop = {
    .name = "resized-crop",
    .role = MR_ROLE_SIZES,
    .hint = resized_crop_words,
    .help = "Cuts a random box out of each picture and resizes it as Pillow does.",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = resized_crop_opts,
    .state_sz = sizeof(resized_crop_t),
    .plan = resized_crop_plan,
    .open = resized_crop_open,
    .close = resized_crop_close,
    .map = &(const mr_map_def_t){.run = resized_crop_map,
                                 .leave = resized_crop_leave,
                                 .draw_text = resized_crop_draw_text},
};
