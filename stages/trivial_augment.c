/* trivial-augment: one of fourteen operations, of a magnitude that is drawn too: torchvision's
   TrivialAugmentWide, with Pillow's bytes. */
#include "pipeline/stage_map.h"
#include "stages/augment.h"

typedef struct trivial_augment {
  int64_t bins;
  mr_augment_t a;
} trivial_augment_t;

static mr_err_t trivial_augment_plan(mr_stage_t *s) {
  trivial_augment_t *t = s->state;
  MR_TRY(mr_augment_plan(s, &t->a));
  return mr_needs_generator(s, NULL);
}

static mr_err_t trivial_augment_map(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) {
  const trivial_augment_t *t = s->state;
  const mr_pixels_t *px = &t->a.in;
  int f = px->field, bins = (int)t->bins, bin = 0;
  MR_TRY(mr_canvas_open(s, px, &in->field[f], out->field[f].data));
  mr_augment_op_t op = (mr_augment_op_t)mr_philox_integers(in->rng, 0, MR_AUGMENT_DRAWN);
  if (mr_augment_has_magnitude(op)) bin = (int)mr_philox_integers(in->rng, 0, bins);
  float magnitude = mr_augment_magnitude(&mr_augment_wide, op, bins, bin, px->H, px->W);
  mr_augment_apply(s, &t->a, op, magnitude, in->rng, out);
  mr_canvas_close(s, px, out->field[f].data);
  return MR_OK;
}

static const mr_opt_t trivial_augment_opts[] = {{.name = "bins",
                                                 .type = MR_OPT_INT,
                                                 .offset = offsetof(trivial_augment_t, bins),
                                                 .def = "31",
                                                 .lo = 2,
                                                 .hi = 1000,
                                                 .positional = 1,
                                                 .help = "Number of magnitudes to choose from."},
                                                MR_AUGMENT_OPTS(trivial_augment_t, a),
                                                {0}};

static const mr_hint_t trivial_augment_words[] = {{"trivialaugmentwide", "trivial-augment", NULL},
                                                  {0}};

const mr_stage_def_t mr_stage_trivial_augment = {
    .name = "trivial-augment",
    .hint = trivial_augment_words,
    .help = "Applies one of fourteen operations of any magnitude to pictures (TrivialAugmentWide).",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = trivial_augment_opts,
    .state_sz = sizeof(trivial_augment_t),
    .plan = trivial_augment_plan,
    .map = &(const mr_map_def_t){.run = trivial_augment_map,
                                 .leave = mr_canvas_leave,
                                 .draw_text = mr_augment_draw_text},
};
