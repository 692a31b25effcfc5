/* flip: mirrors a picture left to right with probability p: torchvision's RandomHorizontalFlip with
   the record's own generator.  With p=0 or p=1 the record needs no generator. */
#include <stdio.h>

#include "base/isa.h"
#include "pipeline/stage_map.h"
#include "stages/pixels.h"

typedef struct flip {
  double p;
  const char *field_name;
  int field;
  int rows, W, C; /* C: bytes of a pixel, 1 if channels are planes */
  bool avx2;      /* C == 3, or C == 1 and rows of 32 bytes or more; and the machine has AVX2 */
} flip_t;

static mr_err_t flip_plan(mr_stage_t *s) {
  flip_t *t = s->state;
  mr_pixels_t px;
  MR_TRY(mr_pixels_plan(s, t->field_name, INT16_MAX, INT16_MAX, &px));
  t->field = px.field;
  t->C = px.hwc ? px.C : 1, t->W = px.W;
  t->rows = px.hwc ? px.H : px.C * px.H;
  s->out_spec[0] = s->in_spec[0];
  return t->p == 0 || t->p == 1 ? MR_OK : mr_needs_generator(s, "p=0 or p=1");
}

static mr_err_t flip_open(mr_stage_t *s) {
  flip_t *t = s->state;
  t->avx2 = (t->C == 3 || (t->C == 1 && t->W >= 32)) && mr_isa() >= MR_ISA_AVX2;
  return MR_OK;
}

static mr_err_t flip_map(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) {
  const flip_t *t = s->state;
  bool turn = t->p == 1;
  if (in->rng) {
    turn = mr_philox_random(in->rng) < t->p;
    mr_draw_note(out, turn);
  }
  const void *from = in->field[t->field].data;
  mr_value_t *to = &out->field[t->field];
  if (!turn) {
    *to = in->field[t->field];
  } else if (t->avx2 && t->C == 3) {
    mr__mirror3_avx2(from, to->data, t->rows, t->W);
  } else if (t->avx2) {
    mr__mirror_avx2(from, to->data, t->rows, t->W);
  } else {
    mr_mirror(from, to->data, t->rows, t->W, t->C);
  }
  return MR_OK;
}

static void flip_draw_text(const mr_stage_t *s, uint64_t what, char *text, size_t n) {
  snprintf(text, n, "%s", what ? "mirrored" : "not mirrored");
}

static const mr_opt_t flip_opts[] = {{.name = "p",
                                      .hint = "prob probability flipprob",
                                      .type = MR_OPT_F64,
                                      .offset = offsetof(flip_t, p),
                                      .def = "0.5",
                                      .hi = 1,
                                      .help = "Probability that a picture is mirrored.",
                                      .positional = 1},
                                     MR_PIXELS_OPT(flip_t, field_name),
                                     {0}};

static const mr_hint_t flip_words[] = {
    {"randomhorizontalflip horizontalflip randomfliphorizontal randomflipleftright", "flip p=0.5",
     NULL},
    {"hflip fliplr flipleftright mirror", "flip p=1", NULL},
    {"map lambda apply compose transform transforms", "flip ! resized-crop ! normalize",
     "each transform is a stage, joined by \"!\": flip ! resized-crop ! normalize; a new one is a "
     "file in C (README.md, Adding a stage)"},
    {0}};

const mr_stage_def_t mr_stage_flip = {
    .name = "flip",
    .hint = flip_words,
    .help = "Mirrors pictures left to right, each with probability p.",
    .in = {{.name = "in", .flow = MR_FLOW_RECORDS}},
    .out = {{.name = "out", .flow = MR_FLOW_RECORDS}},
    .opts = flip_opts,
    .state_sz = sizeof(flip_t),
    .plan = flip_plan,
    .open = flip_open,
    .map = &(const mr_map_def_t){.run = flip_map, .draw_text = flip_draw_text},
};
