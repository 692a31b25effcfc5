/* A plug-in with a stage: cutout, which covers a square of a picture (DeVries and Taylor, "Improved
   Regularization of Convolutional Neural Networks with Cutout", 2017).

   cc -O2 -shared -fPIC cutout.c $(pkg-config --cflags millrace-plugin) -o cutout.so
   millrace run --plugin ./cutout.so 'synthetic ! shuffle seed=1 ! cutout 12 p=0.5 ! batch 128 !
   null' */
#include <millrace.h>
#include <stdio.h>
#include <string.h>

typedef struct cutout {
  int64_t size, fill;
  double p;
  const char *field_name;
  int field;                    /* which one holds the pictures */
  int H, W, pixel, row, planes; /* bytes of a pixel and a row; pictures that lie one after another:
                                   3 where channels are planes, else 1 */
} cutout_t;

/* What the stage reports of itself: metrics.jsonl, TensorBoard and the page show it as cutout's. */
enum { SEEN, COVERED };
static const mr_metric_def_t cutout_metrics[] = {
    [SEEN] = {.name = "pictures",
              .help = "Pictures that have come by.",
              .role = MR_METRIC_STAGE,
              .total = true},
    [COVERED] = {.name = "covered",
                 .help = "Pictures that have been covered.",
                 .role = MR_METRIC_STAGE,
                 .total = true},
    {0}};

static bool is_picture(const mr_field_t *f) {
  return f->dtype == MR_U8 && f->ndim == 3 && f->layout != MR_LAYOUT_NONE && !f->ragged;
}

/* Before anything runs: takes pictures of bytes, gives the same. */
static mr_err_t cutout_plan(mr_stage_t *s) {
  cutout_t *t = s->state;
  t->field = mr_field_choose(s, t->field_name, is_picture, "u8 pictures in CHW or HWC");
  if (t->field < 0) return (mr_err_t)t->field;
  const mr_field_t *in = &s->in_spec[0].field[t->field];
  bool hwc = in->layout == MR_LAYOUT_HWC;
  t->H = (int)in->dim[hwc ? 0 : 1], t->W = (int)in->dim[hwc ? 1 : 2];
  t->pixel = hwc ? (int)in->dim[2] : 1, t->row = t->W * t->pixel;
  t->planes = hwc ? 1 : (int)in->dim[0];
  s->out_spec[0] = s->in_spec[0];
  s->writes = (uint16_t)(1u << t->field); /* run writes this field, and leaves the others alone */
  return mr_needs_generator(s, "no setting");
}

static int clamp(int v, int most) { return v < 0 ? 0 : v > most ? most : v; }

/* The square around (y,x), as much of it as lies in the picture. */
static void cover(const cutout_t *t, uint8_t *data, int y, int x) {
  int half = (int)t->size / 2, y0 = clamp(y - half, t->H), x0 = clamp(x - half, t->W),
      y1 = clamp(y - half + (int)t->size, t->H), x1 = clamp(x - half + (int)t->size, t->W);
  for (int c = 0; c < t->planes; c++, data += t->H * t->row)
    for (int r = y0; r < y1; r++)
      memset(data + r * t->row + x0 * t->pixel, (int)t->fill, (size_t)((x1 - x0) * t->pixel));
}

/* Hot: one record, by several threads at once.  All that is random comes from the record's own
   generator and is noted, so that the ledger has it, and no number depends on threads. */
static mr_err_t cutout_run(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) {
  const cutout_t *t = s->state;
  bool cut = mr_philox_random(in->rng) < t->p;
  int at = cut ? (int)mr_philox_integers(in->rng, 0, (int64_t)t->H * t->W) : -1;
  const mr_value_t *from = &in->field[t->field];
  mr_value_t *to = &out->field[t->field];
  mr_draw_note(out, (uint64_t)(at + 1));
  mr_metric_count(s, SEEN, 1);
  if (cut) mr_metric_count(s, COVERED, 1);
  if (!cut) {
    *to = *from; /* nothing to do: no copy */
    return MR_OK;
  }
  memcpy(to->data, from->data, (size_t)t->planes * (size_t)t->H * (size_t)t->row);
  cover(t, (uint8_t *)to->data, at / t->W, at % t->W);
  return MR_OK;
}

/* `millrace who` says what a draw meant. */
static void cutout_draw_text(const mr_stage_t *s, uint64_t what, char *text, size_t n) {
  const cutout_t *t = s->state;
  int at = (int)what - 1;
  if (what)
    snprintf(text, n, "covered around row %d, column %d", at / t->W, at % t->W);
  else
    snprintf(text, n, "not covered");
}

static const mr_opt_t cutout_opts[] = {
    {.name = "size",
     .type = MR_OPT_INT,
     .offset = offsetof(cutout_t, size),
     .unit = "pixels",
     .def = "16",
     .lo = 1,
     .hi = 4096,
     .help = "Side of the square.",
     .positional = 1},
    {.name = "fill",
     .type = MR_OPT_INT,
     .offset = offsetof(cutout_t, fill),
     .def = "0",
     .hi = 255,
     .help = "Byte that covers it."},
    {.name = "p",
     .type = MR_OPT_F64,
     .offset = offsetof(cutout_t, p),
     .def = "1",
     .hi = 1,
     .help = "Probability that a picture has one."},
    {.name = "field",
     .type = MR_OPT_STR,
     .offset = offsetof(cutout_t, field_name),
     .help = "Field of the pictures; needed where several fields could be pictures."},
    {0}};

static const mr_map_def_t cutout_map = {.run = cutout_run, .draw_text = cutout_draw_text};

static const mr_stage_def_t cutout = {
    .name = "cutout",
    .help = "Covers a square of a picture, somewhere.",
    .in = {{.name = "in", .flow = MR_FLOW_RECORDS}},
    .out = {{.name = "out", .flow = MR_FLOW_RECORDS}},
    .opts = cutout_opts,
    .metrics = cutout_metrics,
    .state_sz = sizeof(cutout_t),
    .plan = cutout_plan,
    .map = &cutout_map,
};

static const mr_stage_def_t *const stages[] = {&cutout, NULL};

const mr_plugin_t mr_plugin = {MR_PLUGIN_BUILT_FOR, .name = "cutout", .stages = stages};
