/* pad-crop: pads each picture and cuts a box of one size out of it at a random place: torchvision's
   RandomCrop, as in recipes for CIFAR.

   Nothing is padded in memory: each pixel of the box is read from the pixel that padding
   would copy. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pipeline/stage_map.h"
#include "stages/pixels.h"

enum { SIDE_MAX = 65535 };
typedef enum pad_mode { PAD_CONSTANT, PAD_EDGE, PAD_REFLECT, PAD_SYMMETRIC } pad_mode_t;

typedef struct pad_crop {
  const char *field, *size;
  int64_t padding;
  bool if_needed;
  int mode;
  mr_vec_t fill;
  int h, w; /* of the output */
  mr_pixels_t in;
} pad_crop_t;

static mr_err_t pad_crop_plan_fill(mr_stage_t *s) {
  pad_crop_t *t = s->state;
  mr_vec_t *fill = &t->fill;
  if (fill->n != 1 && fill->n != t->in.C)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting fill: %d numbers for pictures of %d channels, want one for "
                         "each, or one for all",
                         fill->n, t->in.C);
  for (int c = fill->n; c < t->in.C; c++) fill->v[c] = fill->v[0];
  return MR_OK;
}

/* How many pixels are added at both ends of a side. */
static int pad_crop_pad(const pad_crop_t *t, int side, int want) {
  int pad = (int)t->padding, lacks = want - (side + 2 * pad);
  return t->if_needed && lacks > 0 ? pad + lacks : pad;
}

static mr_err_t pad_crop_check(mr_stage_t *s, int h, int w, mr_err_t code) {
  const pad_crop_t *t = s->state;
  int64_t tall = h + 2 * (int64_t)pad_crop_pad(t, h, t->h);
  int64_t wide = w + 2 * (int64_t)pad_crop_pad(t, w, t->w);
  if (tall >= t->h && wide >= t->w) return MR_OK;
  return mr_stage_fail(s, code,
                       "setting size = %s: a picture of %dx%d is %lldx%lld with its padding, want "
                       "at least %dx%d; set padding= higher, or pad-if-needed",
                       t->size, h, w, (long long)tall, (long long)wide, t->h, t->w);
}

static mr_err_t pad_crop_plan(mr_stage_t *s) {
  pad_crop_t *t = s->state;
  MR_TRY(mr_pixels_plan_any(s, t->field, MR_CHANNELS_MAX, SIDE_MAX, &t->in));
  MR_TRY(mr_pixels_sides(s, t->size, &t->h, &t->w));
  if (!t->w) t->w = t->h;
  MR_TRY(pad_crop_plan_fill(s));
  if (!t->in.varies) MR_TRY(pad_crop_check(s, t->in.H, t->in.W, MR_ERR_SHAPE));
  s->out_spec[0] = s->in_spec[0];
  mr_field_t *out = &s->out_spec[0].field[t->in.field];
  out->varies = false;
  out->dim[t->in.h_at] = t->h, out->dim[t->in.h_at + 1] = t->w;
  s->scratch_bytes = sizeof(mr_grown_t);
  bool whole = !t->in.varies && !t->padding && t->in.H == t->h && t->in.W == t->w;
  return whole ? MR_OK : mr_needs_generator(s, "a size that is the pictures' own, without padding");
}

static void pad_crop_leave(mr_stage_t *s) { mr_grown_free(s->scratch); }

/* Which of a side's n pixels is shown at index k of the padded side; -1: the fill. */
static int pad_crop_source(int k, int n, pad_mode_t mode) {
  if (k >= 0 && k < n) return k;
  if (mode == PAD_CONSTANT) return -1;
  if (mode == PAD_EDGE || n == 1) return k < 0 ? 0 : n - 1;
  int again = mode == PAD_REFLECT ? 2 * (n - 1) : 2 * n, at = k % again;
  if (at < 0) at += again;
  return at < n ? at : again - at - (mode == PAD_SYMMETRIC);
}

/* The pixels [from,from + want) of a side with padding need [*first,*first + *n) of the picture's.
 */
static void pad_crop_need(int from, int want, int side, pad_mode_t mode, int *first, int *n) {
  int lo = from < 0 ? 0 : from, hi = from + want > side ? side : from + want;
  bool beside = from < 0 || from + want > side;
  if (beside && mode != PAD_CONSTANT) lo = 0, hi = side;
  *first = lo < side ? lo : side - 1;
  *n = hi > *first ? hi - *first : 1;
}

static void pad_crop_row(const pad_crop_t *t, const uint8_t *from, int left, int have, int W, int j,
                         const uint8_t *fill, uint8_t *to) {
  size_t each = (size_t)mr_pixels_each(&t->in);
  for (int x = 0; x < t->w;) {
    int at = j + x;
    if (from && at >= left && at < left + have) {
      int n = left + have - at < t->w - x ? left + have - at : t->w - x;
      memcpy(to + (size_t)x * each, from + (size_t)(at - left) * each, (size_t)n * each);
      x += n;
      continue;
    }
    int source = from ? pad_crop_source(at, W, (pad_mode_t)t->mode) : -1;
    memcpy(to + (size_t)x * each, source < 0 ? fill : from + (size_t)(source - left) * each, each);
    x++;
  }
}

static mr_err_t pad_crop_copy(mr_stage_t *s, const mr_value_t *v, int H, int W, int i, int j,
                              uint8_t *to) {
  const pad_crop_t *t = s->state;
  size_t each = (size_t)mr_pixels_each(&t->in), row = each * (size_t)t->w;
  uint8_t fill[MR_CHANNELS_MAX];
  mr_box_t need;
  pad_crop_need(i, t->h, H, (pad_mode_t)t->mode, &need.i, &need.h);
  pad_crop_need(j, t->w, W, (pad_mode_t)t->mode, &need.j, &need.w);
  for (int c = 0; c < t->in.C; c++) fill[c] = (uint8_t)t->fill.v[c];
  for (int k = 0; k < mr_pixels_planes(&t->in); k++) {
    mr_part_t part;
    MR_TRY(mr_pixels_part(s, &t->in, v, k, need, s->scratch, &part));
    for (int y = 0; y < t->h; y++, to += row) {
      int source = pad_crop_source(i + y, H, (pad_mode_t)t->mode);
      const uint8_t *from = source < 0 ? NULL : part.data + (size_t)(source - need.i) * part.stride;
      pad_crop_row(t, from, need.j, need.w, W, j, fill + k, to);
    }
  }
  return MR_OK;
}

static mr_err_t pad_crop_map(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) {
  const pad_crop_t *t = s->state;
  const mr_value_t *v = &in->field[t->in.field];
  int H, W, i = 0, j = 0;
  mr_pixels_size(&t->in, v, &H, &W);
  MR_TRY(pad_crop_check(s, H, W, MR_ERR_DATA));
  int top = pad_crop_pad(t, H, t->h), left = pad_crop_pad(t, W, t->w);
  int tall = H + 2 * top, wide = W + 2 * left;
  if (tall > t->h) i = (int)mr_philox_integers(in->rng, 0, tall - t->h + 1);
  if (wide > t->w) j = (int)mr_philox_integers(in->rng, 0, wide - t->w + 1);
  if (in->rng) mr_draw_note(out, (uint64_t)i | (uint64_t)j << 32);
  return pad_crop_copy(s, v, H, W, i - top, j - left, out->field[t->in.field].data);
}

static void pad_crop_draw_text(const mr_stage_t *s, uint64_t what, char *text, size_t n) {
  snprintf(text, n, "from row %u, column %u", (uint32_t)what, (uint32_t)(what >> 32));
}

static const mr_opt_t pad_crop_opts[] = {
    {.name = "size",
     .hint = "imgsize imagesize cropsize outputsize",
     .type = MR_OPT_STR,
     .offset = offsetof(pad_crop_t, size),
     .unit = "N|HxW",
     .positional = 1,
     .help = "Height and width of the output pictures."},
    {.name = "padding",
     .type = MR_OPT_INT,
     .offset = offsetof(pad_crop_t, padding),
     .unit = "pixels",
     .def = "0",
     .hi = 16384,
     .help = "Pixels added on each side before the box is cut out."},
    {.name = "mode",
     .hint = "paddingmode padmode",
     .type = MR_OPT_ENUM,
     .offset = offsetof(pad_crop_t, mode),
     .def = "constant",
     .choices = "constant|edge|reflect|symmetric",
     .help = "What is added: the fill (constant), the outermost pixel (edge), or the mirrored "
             "picture without (reflect) or with (symmetric) its outermost pixel."},
    {.name = "fill",
     .type = MR_OPT_VEC,
     .offset = offsetof(pad_crop_t, fill),
     .def = "0",
     .lo = 0,
     .hi = 255,
     .help = "Level of each channel for mode=constant; a single number applies to all channels."},
    {.name = "pad-if-needed",
     .type = MR_OPT_BOOL,
     .offset = offsetof(pad_crop_t, if_needed),
     .def = "false",
     .help = "Pads smaller pictures further, on each side by the missing height or width."},
    MR_PIXELS_OPT(pad_crop_t, field),
    {0}};

static const mr_hint_t pad_crop_words[] = {{"randomcrop", "pad-crop 32 padding=4", NULL}, {0}};

const mr_stage_def_t mr_stage_pad_crop = {
    .name = "pad-crop",
    .role = MR_ROLE_SIZES,
    .hint = pad_crop_words,
    .help = "Pads pictures and cuts a box of one size out of each at a random place.",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = pad_crop_opts,
    .state_sz = sizeof(pad_crop_t),
    .plan = pad_crop_plan,
    .map =
        &(const mr_map_def_t){
            .run = pad_crop_map, .leave = pad_crop_leave, .draw_text = pad_crop_draw_text},
};
