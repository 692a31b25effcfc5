/* center-crop: cuts the middle out of each picture, as torchvision's CenterCrop does; a picture
   that is smaller is set into black. */
#include <math.h>
#include <string.h>

#include "pipeline/stage_map.h"
#include "stages/pixels.h"

enum { SIDE_MAX = 65535 };

typedef struct center_crop {
  const char *field, *size;
  int h, w; /* of the output */
  mr_pixels_t in;
} center_crop_t;

static mr_err_t center_crop_plan(mr_stage_t *s) {
  center_crop_t *t = s->state;
  MR_TRY(mr_pixels_plan_any(s, t->field, MR_CHANNELS_MAX, SIDE_MAX, &t->in));
  MR_TRY(mr_pixels_sides(s, t->size, &t->h, &t->w));
  if (!t->w) t->w = t->h;
  s->out_spec[0] = s->in_spec[0];
  mr_field_t *out = &s->out_spec[0].field[t->in.field];
  out->varies = false;
  out->dim[t->in.h_at] = t->h, out->dim[t->in.h_at + 1] = t->w;
  s->scratch_bytes = sizeof(mr_grown_t);
  return MR_OK;
}

static void center_crop_leave(mr_stage_t *s) { mr_grown_free(s->scratch); }

/* Where the middle `want` of `side` pixels begins, or, if there are fewer, where these begin in the
   output.  Half pixels are rounded to the even one when cutting, and down when padding. */
static void center_crop_place(int side, int want, int *from, int *n, int *to) {
  *from = side > want ? (int)nearbyint((side - want) / 2.0) : 0;
  *to = side < want ? (want - side) / 2 : 0;
  *n = side < want ? side : want;
}

static mr_err_t center_crop_map(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) {
  const center_crop_t *t = s->state;
  const mr_value_t *from = &in->field[t->in.field];
  uint8_t *to = out->field[t->in.field].data;
  size_t each = (size_t)mr_pixels_each(&t->in), row = each * (size_t)t->w;
  int h, w, top, left;
  mr_box_t b;
  mr_pixels_size(&t->in, from, &h, &w);
  center_crop_place(h, t->h, &b.i, &b.h, &top);
  center_crop_place(w, t->w, &b.j, &b.w, &left);
  int planes = mr_pixels_planes(&t->in);
  if (b.h < t->h || b.w < t->w) memset(to, 0, (size_t)planes * (size_t)t->h * row);
  for (int k = 0; k < planes; k++, to += (size_t)t->h * row) {
    mr_part_t part;
    MR_TRY(mr_pixels_part(s, &t->in, from, k, b, s->scratch, &part));
    uint8_t *at = to + (size_t)top * row + (size_t)left * each;
    for (int y = 0; y < b.h; y++)
      memcpy(at + (size_t)y * row, part.data + (size_t)y * part.stride, each * (size_t)b.w);
  }
  return MR_OK;
}

static const mr_opt_t center_crop_opts[] = {{.name = "size",
                                             .hint = "imgsize imagesize cropsize outputsize",
                                             .type = MR_OPT_STR,
                                             .offset = offsetof(center_crop_t, size),
                                             .unit = "N|HxW",
                                             .positional = 1,
                                             .help = "Height and width of the output pictures."},
                                            MR_PIXELS_OPT(center_crop_t, field),
                                            {0}};

static const mr_hint_t center_crop_words[] = {
    {"centercrop centercroprgbimagedecoder", "center-crop 224", NULL},
    {"crop videocrop", "center-crop 224",
     "no stage cuts at a fixed corner; stage \"center-crop\" takes the middle"},
    {0}};

const mr_stage_def_t mr_stage_center_crop = {
    .name = "center-crop",
    .role = MR_ROLE_SIZES,
    .hint = center_crop_words,
    .help = "Cuts the middle out of each picture.",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = center_crop_opts,
    .state_sz = sizeof(center_crop_t),
    .plan = center_crop_plan,
    .map = &(const mr_map_def_t){.run = center_crop_map, .leave = center_crop_leave},
};
