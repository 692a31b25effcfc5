/* random-erasing: overwrites a random box of each picture with probability p: torchvision's
   RandomErasing, before or after normalize.

   value=random fills the box with standard normals: jax.random.normal of a key that the record's
   generator draws, in the order channel, row, column. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "base/random.h"
#include "pipeline/stage_map.h"
#include "stages/pixels.h"

enum { SIDE_MAX = 16383, PIXEL_MAX = 4 * MR_CHANNELS_MAX };

/* The note of a box has 14 bits for each of four numbers; that of a key has this one. */
static const uint64_t note_of_key = UINT64_C(1) << 63;

typedef struct random_erasing {
  const char *field, *value;
  double p, scale[2], ratio[2], log_ratio[2];
  bool random;
  mr_vec_t fill;
  mr_pixels_t in;
  mr_dtype_t dtype;
  size_t item;
  uint8_t pixel[PIXEL_MAX]; /* the fill in the dtype of the pictures, a channel after the other */
} random_erasing_t;

static bool could_be_erased(const mr_field_t *f) {
  bool bytes = f->dtype == MR_U8, floats = f->dtype == MR_F32 || f->dtype == MR_BF16;
  return !f->ragged && ((bytes && f->ndim == 2) ||
                        ((bytes || floats) && f->ndim == 3 && f->layout != MR_LAYOUT_NONE));
}

/* Writes v in the pictures' dtype; torch cuts the fraction off for u8. */
static void put_item(mr_dtype_t dtype, float v, uint8_t *to) {
  mr_bf16_t half = mr_bf16_from_f32(v);
  if (dtype == MR_U8)
    *to = (uint8_t)v;
  else if (dtype == MR_F32)
    memcpy(to, &v, sizeof v);
  else
    memcpy(to, &half, sizeof half);
}

static mr_err_t random_erasing_plan_value(mr_stage_t *s) {
  random_erasing_t *t = s->state;
  bool bytes = t->dtype == MR_U8;
  const mr_opt_t row = {.name = "value",
                        .type = MR_OPT_VEC,
                        .unit = bytes ? "" : ", or the word random",
                        .lo = bytes ? 0 : -1e6,
                        .hi = bytes ? 255 : 1e6};
  t->random = !strcmp(t->value, "random");
  if (t->random && bytes)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting value = random: standard normals do not fit among bytes; put "
                         "this stage behind normalize");
  if (t->random) return MR_OK;
  MR_TRY(mr_opt_set(&row, &t->fill, s->name, t->value, s->diag));
  if (t->fill.n != 1 && t->fill.n != t->in.C)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting value = %s: %d numbers for pictures of %d channels, want one for "
                         "each, or one for all",
                         t->value, t->fill.n, t->in.C);
  for (int c = 0; c < t->in.C; c++)
    put_item(t->dtype, (float)t->fill.v[t->fill.n == 1 ? 0 : c], t->pixel + (size_t)c * t->item);
  return MR_OK;
}

static mr_err_t random_erasing_plan(mr_stage_t *s) {
  random_erasing_t *t = s->state;
  int at = mr_field_choose(s, t->field, could_be_erased,
                           "pictures of u8, f32 or bf16 in CHW or HWC, or u8 without channels");
  if (at < 0) return (mr_err_t)at;
  const mr_field_t *f = &s->in_spec[0].field[at];
  if (f->varies) return mr_pixels_plan(s, f->name, MR_CHANNELS_MAX, SIDE_MAX, &t->in);
  MR_TRY(mr_pixels_plan_field(s, at, MR_CHANNELS_MAX, SIDE_MAX, &t->in));
  s->scratch_bytes = sizeof(mr_grown_t);
  t->dtype = f->dtype, t->item = mr_dtype_size(f->dtype);
  s->out_spec[0] = s->in_spec[0];
  for (int k = 0; k < 2; k++) t->log_ratio[k] = log(t->ratio[k]);
  MR_TRY(random_erasing_plan_value(s));
  return t->p == 0 ? MR_OK : mr_needs_generator(s, "p=0");
}

/* The box, of a height of 0 if ten tries gave none that is smaller than the picture. */
static mr_box_t random_erasing_draw_box(const random_erasing_t *t, mr_philox_t *g) {
  double area = (double)t->in.H * t->in.W;
  for (int k = 0; k < 10; k++) {
    double part = area * mr_philox_uniform(g, t->scale[0], t->scale[1]);
    double aspect = exp(mr_philox_uniform(g, t->log_ratio[0], t->log_ratio[1]));
    double h = nearbyint(sqrt(part * aspect)), w = nearbyint(sqrt(part / aspect));
    if (!(h < t->in.H && w < t->in.W)) continue;
    mr_box_t b = {.h = (int)h, .w = (int)w};
    b.i = (int)mr_philox_integers(g, 0, t->in.H - b.h + 1);
    b.j = (int)mr_philox_integers(g, 0, t->in.W - b.w + 1);
    return b;
  }
  return (mr_box_t){0};
}

/* normal: (C,h,w) of the box, or NULL for the fill. */
static void random_erasing_fill(const random_erasing_t *t, mr_box_t b, const float *normal,
                                uint8_t *to) {
  int planes = mr_pixels_planes(&t->in), each = mr_pixels_each(&t->in);
  size_t pixel = (size_t)each * t->item;
  for (int k = 0; k < planes; k++)
    for (int y = 0; y < b.h; y++) {
      uint8_t *row = to + ((size_t)(k * t->in.H + b.i + y) * (size_t)t->in.W + (size_t)b.j) * pixel;
      for (int x = 0; !normal && x < b.w; x++)
        memcpy(row + (size_t)x * pixel, t->pixel + (size_t)k * t->item, pixel);
      for (int c = 0; normal && c < each; c++)
        for (int x = 0; x < b.w; x++)
          put_item(t->dtype, normal[((k + c) * b.h + y) * b.w + x],
                   row + (size_t)(x * each + c) * t->item);
    }
}

/* The standard normals of a box, in the worker's memory. */
static mr_err_t random_erasing_draw_normals(mr_stage_t *s, mr_box_t b, mr_rec_t *out,
                                            mr_philox_t *g, const float **normal) {
  const random_erasing_t *t = s->state;
  mr_grown_t *memory = s->scratch;
  size_t n = (size_t)t->in.C * (size_t)b.h * (size_t)b.w;
  uint32_t seed = mr_philox_next32(g);
  mr_draw_note(out, note_of_key | seed);
  MR_TRY(mr_grow(memory, n * sizeof(float), s->diag));
  mr_random_normal(mr_prng(seed, MR_KEY_PARTITIONABLE), n, (float *)memory->at);
  *normal = (const float *)memory->at;
  return MR_OK;
}

static mr_err_t random_erasing_map(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) {
  const random_erasing_t *t = s->state;
  const mr_value_t *from = &in->field[t->in.field];
  mr_value_t *to = &out->field[t->in.field];
  const float *normal = NULL;
  mr_box_t b = {0};
  if (t->p > 0 && mr_philox_random(in->rng) < t->p) b = random_erasing_draw_box(t, in->rng);
  if (t->p > 0)
    mr_draw_note(out,
                 (uint64_t)b.i | (uint64_t)b.j << 14 | (uint64_t)b.h << 28 | (uint64_t)b.w << 42);
  if (!b.h || !b.w) {
    *to = *from;
    return MR_OK;
  }
  if (t->random) MR_TRY(random_erasing_draw_normals(s, b, out, in->rng, &normal));
  memcpy(to->data, from->data, (size_t)t->in.C * (size_t)t->in.H * (size_t)t->in.W * t->item);
  random_erasing_fill(t, b, normal, to->data);
  return MR_OK;
}

static void random_erasing_leave(mr_stage_t *s) { mr_grown_free(s->scratch); }

static void random_erasing_draw_text(const mr_stage_t *s, uint64_t what, char *text, size_t n) {
  unsigned i = what & 0x3FFF, j = what >> 14 & 0x3FFF, h = what >> 28 & 0x3FFF,
           w = what >> 42 & 0x3FFF;
  if (what & note_of_key)
    snprintf(text, n, "normals of key %u", (uint32_t)what);
  else if (h && w)
    snprintf(text, n, "erased rows %u-%u, columns %u-%u", i, i + h - 1, j, j + w - 1);
  else
    snprintf(text, n, "not erased");
}

static const mr_opt_t random_erasing_opts[] = {
    {.name = "p",
     .hint = "prob probability",
     .type = MR_OPT_F64,
     .offset = offsetof(random_erasing_t, p),
     .def = "0.5",
     .hi = 1,
     .positional = 1,
     .help = "Probability that a box is erased."},
    {.name = "scale",
     .type = MR_OPT_RANGE,
     .offset = offsetof(random_erasing_t, scale),
     .unit = "area",
     .def = "0.02:0.33",
     .lo = 0,
     .hi = 1,
     .help = "Share of the picture's area that a box covers, drawn uniformly."},
    {.name = "ratio",
     .type = MR_OPT_RANGE,
     .offset = offsetof(random_erasing_t, ratio),
     .unit = "height/width",
     .def = "0.3:3.3",
     .lo = 1e-3,
     .hi = 1e3,
     .help = "Aspect ratio of a box, drawn uniformly in its logarithm."},
    {.name = "value",
     .type = MR_OPT_STR,
     .offset = offsetof(random_erasing_t, value),
     .unit = "A,B,C|random",
     .def = "0",
     .help = "What the box is filled with: a number for each channel, one for all, or random, a "
             "standard normal for each value of pictures behind normalize."},
    MR_PIXELS_OPT(random_erasing_t, field),
    {0}};

static const mr_hint_t random_erasing_words[] = {
    {"cutout coarsedropout", "random-erasing 0.5",
     "stage \"random-erasing\" covers a rectangle of a random size"},
    {0}};

const mr_stage_def_t mr_stage_random_erasing = {
    .name = "random-erasing",
    .hint = random_erasing_words,
    .help = "Overwrites a random box of each picture with probability p.",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = random_erasing_opts,
    .state_sz = sizeof(random_erasing_t),
    .plan = random_erasing_plan,
    .map = &(const mr_map_def_t){.run = random_erasing_map,
                                 .leave = random_erasing_leave,
                                 .draw_text = random_erasing_draw_text},
};
