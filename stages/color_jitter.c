/* color-jitter: changes brightness, contrast, saturation and hue of each picture by factors and in
   an order that the record's generator draws: torchvision's ColorJitter, with Pillow's bytes.

   A factor is drawn as a float, the type in which torch draws it and Pillow takes it. */
#include <string.h>

#include "stages/augment.h"

enum { BRIGHTNESS, CONTRAST, SATURATION, HUE, CHANGES };
static const char *const change_name[] = {"brightness", "contrast", "saturation", "hue"};

typedef struct color_jitter {
  const char *field;
  const char *text[CHANGES]; /* a setting each: "0.4" or "0.6:1.4" */
  double range[CHANGES][2];
  bool on[CHANGES]; /* the factor can be another one than that which changes nothing */
  mr_pixels_t in;
} color_jitter_t;

/* A single number is the distance from the factor that changes nothing, which is 1, of hue 0. */
static mr_err_t color_jitter_range(mr_stage_t *s, int k) {
  color_jitter_t *t = s->state;
  bool hue = k == HUE, pair = strchr(t->text[k], ':');
  double *range = t->range[k], neutral = hue ? 0 : 1;
  const mr_opt_t row = {.name = change_name[k],
                        .type = pair ? MR_OPT_RANGE : MR_OPT_F64,
                        .unit = pair ? NULL : "distance, or LOW:HIGH",
                        .lo = pair && hue ? -0.5 : 0,
                        .hi = hue ? 0.5 : 1000};
  MR_TRY(mr_opt_set(&row, range, s->name, t->text[k], s->diag));
  if (!pair) {
    double lo = neutral - range[0], hi = neutral + range[0];
    range[0] = lo < 0 && !hue ? 0 : lo, range[1] = hi;
  }
  t->on[k] = range[0] != neutral || range[1] != neutral;
  return MR_OK;
}

static mr_err_t color_jitter_plan(mr_stage_t *s) {
  color_jitter_t *t = s->state;
  bool any = false;
  MR_TRY(mr_canvas_plan(s, t->field, &t->in));
  for (int k = 0; k < CHANGES; k++) {
    MR_TRY(color_jitter_range(s, k));
    any |= t->on[k];
  }
  if (!any)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "changes nothing: want brightness=, contrast=, saturation= or hue= above "
                         "0, as in color-jitter brightness=0.4 hue=0.1");
  return mr_needs_generator(s, NULL);
}

static void color_jitter_apply(mr_canvas_t *c, int change, double factor) {
  switch (change) {
    case BRIGHTNESS: mr_pil_brightness(c, factor); break;
    case CONTRAST: mr_pil_contrast(c, factor); break;
    case SATURATION: mr_pil_saturation(c, factor); break;
    default: mr_pil_hue(c, factor);
  }
}

static mr_err_t color_jitter_map(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) {
  const color_jitter_t *t = s->state;
  int f = t->in.field, order[CHANGES] = {BRIGHTNESS, CONTRAST, SATURATION, HUE};
  float factor[CHANGES];
  MR_TRY(mr_canvas_open(s, &t->in, &in->field[f], out->field[f].data));
  for (int k = CHANGES - 1; k > 0; k--) {
    int other = (int)mr_philox_integers(in->rng, 0, k + 1), kept = order[k];
    order[k] = order[other], order[other] = kept;
  }
  for (int k = 0; k < CHANGES; k++)
    if (t->on[k]) factor[k] = (float)mr_philox_uniform(in->rng, t->range[k][0], t->range[k][1]);
  for (int k = 0; k < CHANGES; k++) {
    int change = order[k];
    if (!t->on[change]) continue;
    mr_draw_note_float(out, (uint32_t)change, factor[change]);
    color_jitter_apply(s->scratch, change, factor[change]);
  }
  mr_canvas_close(s, &t->in, out->field[f].data);
  return MR_OK;
}

static void color_jitter_draw_text(const mr_stage_t *s, uint64_t what, char *text, size_t n) {
  mr_draw_float_text(change_name[what >> 32 & 3], what, text, n);
}

static const mr_opt_t color_jitter_opts[] = {
    {.name = "brightness",
     .type = MR_OPT_STR,
     .offset = offsetof(color_jitter_t, text[BRIGHTNESS]),
     .unit = "D|LOW:HIGH",
     .def = "0",
     .help = "Range of the brightness factor; D means 1-D (at least 0) to 1+D."},
    {.name = "contrast",
     .type = MR_OPT_STR,
     .offset = offsetof(color_jitter_t, text[CONTRAST]),
     .unit = "D|LOW:HIGH",
     .def = "0",
     .help = "Range of the contrast factor; D means 1-D (at least 0) to 1+D."},
    {.name = "saturation",
     .type = MR_OPT_STR,
     .offset = offsetof(color_jitter_t, text[SATURATION]),
     .unit = "D|LOW:HIGH",
     .def = "0",
     .help = "Range of the saturation factor; D means 1-D (at least 0) to 1+D."},
    {.name = "hue",
     .type = MR_OPT_STR,
     .offset = offsetof(color_jitter_t, text[HUE]),
     .unit = "D|LOW:HIGH",
     .def = "0",
     .help = "Range of the hue shift in turns, within [-0.5,0.5]; D means -D to D."},
    MR_PIXELS_OPT(color_jitter_t, field),
    {0}};

static const mr_hint_t color_jitter_words[] = {
    {"colorjitter randomcolorjitter", "color-jitter brightness=0.4 contrast=0.4 hue=0.1", NULL},
    {0}};

const mr_stage_def_t mr_stage_color_jitter = {
    .name = "color-jitter",
    .hint = color_jitter_words,
    .help = "Changes brightness, contrast, saturation and hue of pictures at random.",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = color_jitter_opts,
    .state_sz = sizeof(color_jitter_t),
    .plan = color_jitter_plan,
    .map =
        &(const mr_map_def_t){
            .run = color_jitter_map, .leave = mr_canvas_leave, .draw_text = color_jitter_draw_text},
};
