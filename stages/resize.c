/* resize: changes the size of pictures as Pillow's Image.resize does, to HxW, or until the shorter
   side has N pixels, as torchvision's Resize(N) does.

   The second gives pictures of different sizes, whose pixels are made when the next stage asks for
   them: before a center-crop only those that it keeps. */
#include "pipeline/stage_map.h"
#include "stages/pixels.h"
#include "stages/resample.h"

enum { SIDE_MAX = 65535, PILLOW_13 = 0 };

typedef struct resize {
  const char *field, *size;
  int filter, pillow;
  int h, w; /* of the output; w 0: the shorter side is to have h */
  mr_pixels_t in;
} resize_t;

/* What a worker keeps: its scratch. */
typedef struct resize_worker {
  mr_resampler_t resampler;
  mr_grown_t copy, made;
  mr_resize_t how;
  mr_picture_t from;
  mr_stage_t *s;
} resize_worker_t;

/* The output's sides for a picture of h x w. */
static void resize_sides(const resize_t *t, int h, int w, int64_t *out_h, int64_t *out_w) {
  *out_h = *out_w = t->h;
  if (t->w)
    *out_w = t->w;
  else if (w <= h)
    *out_h = (int64_t)((double)((int64_t)t->h * h) / w);
  else
    *out_w = (int64_t)((double)((int64_t)t->h * w) / h);
}

static mr_err_t resize_plan(mr_stage_t *s) {
  resize_t *t = s->state;
  MR_TRY(mr_pixels_plan_any(s, t->field, 3, SIDE_MAX, &t->in));
  MR_TRY(mr_pixels_sides(s, t->size, &t->h, &t->w));
  mr_field_t *out = &s->out_spec[0].field[t->in.field];
  s->out_spec[0] = s->in_spec[0];
  int64_t *dim = out->dim + t->in.h_at;
  s->scratch_bytes = sizeof(resize_worker_t);
  out->varies = t->in.varies && !t->w;
  dim[0] = dim[1] = SIDE_MAX;
  if (out->varies) return MR_OK;
  resize_sides(t, t->in.varies ? 1 : t->in.H, t->in.varies ? 1 : t->in.W, &dim[0], &dim[1]);
  if (dim[0] <= SIDE_MAX && dim[1] <= SIDE_MAX) return MR_OK;
  return mr_stage_fail(s, MR_ERR_SHAPE, "would make pictures of %lld x %lld, want sides up to %d",
                       (long long)dim[0], (long long)dim[1], SIDE_MAX);
}

static void resize_leave(mr_stage_t *s) {
  resize_worker_t *w = s->scratch;
  mr_resampler_free(&w->resampler);
  mr_grown_free(&w->copy), mr_grown_free(&w->made);
}

/* Whether the maker of a picture resizes it itself, and faster. */
static bool resize_is_made(const mr_resize_t *how, const mr_picture_t *p) {
  return p->resized && how->filter == MR_FILTER_BILINEAR;
}

static mr_err_t resize_by_maker(const mr_resize_t *how, const mr_picture_t *p, mr_box_t out,
                                uint8_t *to) {
  mr_scaling_t all = {{.h = how->in_h, .w = how->in_w}, how->out_h, how->out_w, out};
  return p->resized(p, &all, to);
}

static mr_err_t resize_part(const mr_picture_t *p, mr_box_t box, mr_part_t *out) {
  resize_worker_t *w = p->maker;
  size_t row = (size_t)w->how.C * (size_t)box.w;
  mr_diag_t *diag = w->s->diag;
  mr_box_t need;
  mr_part_t src;
  MR_TRY(mr_grow(&w->made, row * (size_t)box.h, diag));
  *out = (mr_part_t){w->made.at, row};
  if (resize_is_made(&w->how, &w->from)) return resize_by_maker(&w->how, &w->from, box, w->made.at);
  MR_TRY(mr_resample_begin(&w->resampler, &w->how, box, &need, diag));
  MR_TRY(mr_picture_part(&w->from, need, &src));
  return mr_resample(&w->resampler, &w->how, need, src, w->made.at, diag);
}

/* All pixels of a picture whose new size is that of all others. */
static mr_err_t resize_whole(mr_stage_t *s, const mr_value_t *from, uint8_t *to) {
  const resize_t *t = s->state;
  resize_worker_t *w = s->scratch;
  mr_box_t need, all = {.h = w->how.out_h, .w = w->how.out_w};
  size_t bytes = (size_t)all.h * (size_t)all.w * (size_t)w->how.C;
  if (t->in.varies && resize_is_made(&w->how, from->data))
    return resize_by_maker(&w->how, from->data, all, to);
  MR_TRY(mr_resample_begin(&w->resampler, &w->how, all, &need, s->diag));
  for (int k = 0; k < mr_pixels_planes(&t->in); k++) {
    mr_part_t src;
    MR_TRY(mr_pixels_part(s, &t->in, from, k, need, &w->copy, &src));
    MR_TRY(mr_resample(&w->resampler, &w->how, need, src, to + (size_t)k * bytes, s->diag));
  }
  return MR_OK;
}

static mr_err_t resize_map(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) {
  const resize_t *t = s->state;
  resize_worker_t *w = s->scratch;
  const mr_value_t *from = &in->field[t->in.field];
  int64_t out_h, out_w;
  int h, wide;
  mr_pixels_size(&t->in, from, &h, &wide);
  resize_sides(t, h, wide, &out_h, &out_w);
  if (out_h > SIDE_MAX || out_w > SIDE_MAX)
    return mr_stage_fail(s, MR_ERR_DATA,
                         "a picture of %d x %d would become %lld x %lld, want sides up to %d", wide,
                         h, (long long)out_w, (long long)out_h, SIDE_MAX);
  w->how = (mr_resize_t){.filter = (mr_filter_t)t->filter,
                         .in_h = h,
                         .in_w = wide,
                         .out_h = (int)out_h,
                         .out_w = (int)out_w,
                         .C = mr_pixels_each(&t->in),
                         .across_first = t->pillow != PILLOW_13};
  if (!s->out_spec[0].field[t->in.field].varies)
    return resize_whole(s, from, out->field[t->in.field].data);
  w->from = *(const mr_picture_t *)from->data, w->s = s;
  *(mr_picture_t *)out->field[t->in.field].data =
      (mr_picture_t){(int)out_h, (int)out_w, w->how.C, w, resize_part, NULL};
  return MR_OK;
}

static const mr_opt_t resize_opts[] = {
    {.name = "size",
     .hint = "imgsize imagesize inputsize resolution targetsize",
     .type = MR_OPT_STR,
     .offset = offsetof(resize_t, size),
     .unit = "N|HxW",
     .positional = 1,
     .help = "Pixels of the shorter side, or height and width of the output pictures."},
    {.name = "filter",
     .hint = "interpolation interptype interpolationmode interpmethod resample method",
     .values = mr_filter_hints,
     .type = MR_OPT_ENUM,
     .offset = offsetof(resize_t, filter),
     .def = "bilinear",
     .choices = MR_FILTERS,
     .help = "Pillow's filter."},
    {.name = "pillow",
     .type = MR_OPT_ENUM,
     .offset = offsetof(resize_t, pillow),
     .def = "13",
     .choices = "13|12",
     .help = "Pillow version whose bytes to reproduce: 13 resizes tall pictures vertically first, "
             "12 and earlier always horizontally first."},
    MR_PIXELS_OPT(resize_t, field),
    {0}};

static const mr_hint_t resize_words[] = {
    {"videoscale scale resizing", "resize 224x224",
     "stage \"resize\" does that: resize 256, or resize 224x224"},
    {0}};

static const mr_hint_t resize_setting_words[] = {
    {"width height", "size=224x224", "size= has both, HEIGHTxWIDTH"},
    {"antialias", NULL,
     "nothing has to be set: filters always average over all pixels that they cover"},
    {0}};

const mr_stage_def_t mr_stage_resize = {
    .name = "resize",
    .role = MR_ROLE_SIZES,
    .hint = resize_words,
    .setting_hint = resize_setting_words,
    .help = "Resizes pictures as Pillow does, to HxW or by their shorter side.",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = resize_opts,
    .state_sz = sizeof(resize_t),
    .plan = resize_plan,
    .map = &(const mr_map_def_t){.run = resize_map, .leave = resize_leave},
};
