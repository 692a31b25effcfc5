/* rand-augment: a few operations drawn from fourteen, all of one magnitude: torchvision's
   RandAugment, with Pillow's bytes. */
#include "pipeline/stage_map.h"
#include "stages/augment.h"

typedef struct rand_augment {
  int64_t ops, magnitude, bins;
  mr_augment_t a;
} rand_augment_t;

static mr_err_t rand_augment_plan(mr_stage_t *s) {
  rand_augment_t *t = s->state;
  MR_TRY(mr_augment_plan(s, &t->a));
  if (t->magnitude >= t->bins)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting magnitude = %lld: want a bin in [0,%lld), of bins=%lld",
                         (long long)t->magnitude, (long long)t->bins, (long long)t->bins);
  return t->ops ? mr_needs_generator(s, "ops=0") : MR_OK;
}

static mr_err_t rand_augment_map(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) {
  const rand_augment_t *t = s->state;
  const mr_pixels_t *px = &t->a.in;
  int f = px->field;
  MR_TRY(mr_canvas_open(s, px, &in->field[f], out->field[f].data));
  for (int64_t k = 0; k < t->ops; k++) {
    mr_augment_op_t op = (mr_augment_op_t)mr_philox_integers(in->rng, 0, MR_AUGMENT_DRAWN);
    float magnitude =
        mr_augment_magnitude(&mr_augment_usual, op, (int)t->bins, (int)t->magnitude, px->H, px->W);
    mr_augment_apply(s, &t->a, op, magnitude, in->rng, out);
  }
  mr_canvas_close(s, px, out->field[f].data);
  return MR_OK;
}

static const mr_opt_t rand_augment_opts[] = {
    {.name = "ops",
     .hint = "numops",
     .type = MR_OPT_INT,
     .offset = offsetof(rand_augment_t, ops),
     .def = "2",
     .lo = 0,
     .hi = 16,
     .positional = 1,
     .help = "Number of operations, drawn one after the other."},
    {.name = "magnitude",
     .type = MR_OPT_INT,
     .offset = offsetof(rand_augment_t, magnitude),
     .unit = "bin",
     .def = "9",
     .lo = 0,
     .hi = 999,
     .help = "Magnitude of all operations, less than bins."},
    {.name = "bins",
     .hint = "nummagnitudebins",
     .type = MR_OPT_INT,
     .offset = offsetof(rand_augment_t, bins),
     .def = "31",
     .lo = 2,
     .hi = 1000,
     .help = "Number of magnitudes to choose from."},
    MR_AUGMENT_OPTS(rand_augment_t, a),
    {0}};

static const mr_hint_t rand_augment_words[] = {
    {"randomverticalflip verticalflip vflip flipud rotate randomrotation randomaffine "
     "randomperspective elastictransform augmix",
     NULL,
     "there is no such stage; rand-augment and trivial-augment turn and shear pictures, and a new "
     "one is a file in C (README.md, Adding a stage)"},
    {"randaug", "rand-augment magnitude=9", NULL},
    {0}};

const mr_stage_def_t mr_stage_rand_augment = {
    .name = "rand-augment",
    .hint = rand_augment_words,
    .help = "Applies a few of fourteen operations of one magnitude to pictures (RandAugment).",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = rand_augment_opts,
    .state_sz = sizeof(rand_augment_t),
    .plan = rand_augment_plan,
    .map =
        &(const mr_map_def_t){
            .run = rand_augment_map, .leave = mr_canvas_leave, .draw_text = mr_augment_draw_text},
};
