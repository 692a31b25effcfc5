/* auto-augment: one of 25 learned pairs of operations, each with its probability and magnitude:
   torchvision's AutoAugment, with Pillow's bytes.  The pairs are those of Cubuk et al.,
   "AutoAugment: Learning Augmentation Strategies from Data" (CVPR 2019). */
#include "pipeline/stage_map.h"
#include "stages/augment.h"

enum { POLICY_IMAGENET, POLICY_CIFAR10, POLICY_SVHN, POLICIES, PAIRS = 25, BINS = 10 };

/* Short names, so that a pair is a line. */
enum {
  OP_SHEAR_X = MR_AUGMENT_SHEAR_X,
  OP_SHEAR_Y = MR_AUGMENT_SHEAR_Y,
  OP_TRANSLATE_X = MR_AUGMENT_TRANSLATE_X,
  OP_TRANSLATE_Y = MR_AUGMENT_TRANSLATE_Y,
  OP_ROTATE = MR_AUGMENT_ROTATE,
  OP_BRIGHTNESS = MR_AUGMENT_BRIGHTNESS,
  OP_COLOR = MR_AUGMENT_COLOR,
  OP_CONTRAST = MR_AUGMENT_CONTRAST,
  OP_SHARPNESS = MR_AUGMENT_SHARPNESS,
  OP_POSTERIZE = MR_AUGMENT_POSTERIZE,
  OP_SOLARIZE = MR_AUGMENT_SOLARIZE,
  OP_AUTO_CONTRAST = MR_AUGMENT_AUTO_CONTRAST,
  OP_EQUALIZE = MR_AUGMENT_EQUALIZE,
  OP_INVERT = MR_AUGMENT_INVERT
};

typedef struct policy_step {
  int op;
  double p; /* probability that it runs */
  int bin;  /* its magnitude, of BINS; 0 without one */
} policy_step_t;

static const policy_step_t policy[POLICIES][PAIRS][2] =
    {
        [POLICY_IMAGENET] =
            {
                {{OP_POSTERIZE, 0.4, 8}, {OP_ROTATE, 0.6, 9}},
                {{OP_SOLARIZE, 0.6, 5}, {OP_AUTO_CONTRAST, 0.6, 0}},
                {{OP_EQUALIZE, 0.8, 0}, {OP_EQUALIZE, 0.6, 0}},
                {{OP_POSTERIZE, 0.6, 7}, {OP_POSTERIZE, 0.6, 6}},
                {{OP_EQUALIZE, 0.4, 0}, {OP_SOLARIZE, 0.2, 4}},
                {{OP_EQUALIZE, 0.4, 0}, {OP_ROTATE, 0.8, 8}},
                {{OP_SOLARIZE, 0.6, 3}, {OP_EQUALIZE, 0.6, 0}},
                {{OP_POSTERIZE, 0.8, 5}, {OP_EQUALIZE, 1, 0}},
                {{OP_ROTATE, 0.2, 3}, {OP_SOLARIZE, 0.6, 8}},
                {{OP_EQUALIZE, 0.6, 0}, {OP_POSTERIZE, 0.4, 6}},
                {{OP_ROTATE, 0.8, 8}, {OP_COLOR, 0.4, 0}},
                {{OP_ROTATE, 0.4, 9}, {OP_EQUALIZE, 0.6, 0}},
                {{OP_EQUALIZE, 0, 0}, {OP_EQUALIZE, 0.8, 0}},
                {{OP_INVERT, 0.6, 0}, {OP_EQUALIZE, 1, 0}},
                {{OP_COLOR, 0.6, 4}, {OP_CONTRAST, 1, 8}},
                {{OP_ROTATE, 0.8, 8}, {OP_COLOR, 1, 2}},
                {{OP_COLOR, 0.8, 8}, {OP_SOLARIZE, 0.8, 7}},
                {{OP_SHARPNESS, 0.4, 7}, {OP_INVERT, 0.6, 0}},
                {{OP_SHEAR_X, 0.6, 5}, {OP_EQUALIZE, 1, 0}},
                {{OP_COLOR, 0.4, 0}, {OP_EQUALIZE, 0.6, 0}},
                {{OP_EQUALIZE, 0.4, 0}, {OP_SOLARIZE, 0.2, 4}},
                {{OP_SOLARIZE, 0.6, 5}, {OP_AUTO_CONTRAST, 0.6, 0}},
                {{OP_INVERT, 0.6, 0}, {OP_EQUALIZE, 1, 0}},
                {{OP_COLOR, 0.6, 4}, {OP_CONTRAST, 1, 8}},
                {{OP_EQUALIZE, 0.8, 0}, {OP_EQUALIZE, 0.6, 0}},
            },
        [POLICY_CIFAR10] =
            {
                {{OP_INVERT, 0.1, 0}, {OP_CONTRAST, 0.2, 6}},
                {{OP_ROTATE, 0.7, 2}, {OP_TRANSLATE_X, 0.3, 9}},
                {{OP_SHARPNESS, 0.8, 1}, {OP_SHARPNESS, 0.9, 3}},
                {{OP_SHEAR_Y, 0.5, 8}, {OP_TRANSLATE_Y, 0.7, 9}},
                {{OP_AUTO_CONTRAST, 0.5, 0}, {OP_EQUALIZE, 0.9, 0}},
                {{OP_SHEAR_Y, 0.2, 7}, {OP_POSTERIZE, 0.3, 7}},
                {{OP_COLOR, 0.4, 3}, {OP_BRIGHTNESS, 0.6, 7}},
                {{OP_SHARPNESS, 0.3, 9}, {OP_BRIGHTNESS, 0.7, 9}},
                {{OP_EQUALIZE, 0.6, 0}, {OP_EQUALIZE, 0.5, 0}},
                {{OP_CONTRAST, 0.6, 7}, {OP_SHARPNESS, 0.6, 5}},
                {{OP_COLOR, 0.7, 7}, {OP_TRANSLATE_X, 0.5, 8}},
                {{OP_EQUALIZE, 0.3, 0}, {OP_AUTO_CONTRAST, 0.4, 0}},
                {{OP_TRANSLATE_Y, 0.4, 3}, {OP_SHARPNESS, 0.2, 6}},
                {{OP_BRIGHTNESS, 0.9, 6}, {OP_COLOR, 0.2, 8}},
                {{OP_SOLARIZE, 0.5, 2}, {OP_INVERT, 0, 0}},
                {{OP_EQUALIZE, 0.2, 0}, {OP_AUTO_CONTRAST, 0.6, 0}},
                {{OP_EQUALIZE, 0.2, 0}, {OP_EQUALIZE, 0.6, 0}},
                {{OP_COLOR, 0.9, 9}, {OP_EQUALIZE, 0.6, 0}},
                {{OP_AUTO_CONTRAST, 0.8, 0}, {OP_SOLARIZE, 0.2, 8}},
                {{OP_BRIGHTNESS, 0.1, 3}, {OP_COLOR, 0.7, 0}},
                {{OP_SOLARIZE, 0.4, 5}, {OP_AUTO_CONTRAST, 0.9, 0}},
                {{OP_TRANSLATE_Y, 0.9, 9}, {OP_TRANSLATE_Y, 0.7, 9}},
                {{OP_AUTO_CONTRAST, 0.9, 0}, {OP_SOLARIZE, 0.8, 3}},
                {{OP_EQUALIZE, 0.8, 0}, {OP_INVERT, 0.1, 0}},
                {{OP_TRANSLATE_Y, 0.7, 9}, {OP_AUTO_CONTRAST, 0.9, 0}},
            },
        [POLICY_SVHN] =
            {
                {{OP_SHEAR_X, 0.9, 4}, {OP_INVERT, 0.2, 0}},
                {{OP_SHEAR_Y, 0.9, 8}, {OP_INVERT, 0.7, 0}},
                {{OP_EQUALIZE, 0.6, 0}, {OP_SOLARIZE, 0.6, 6}},
                {{OP_INVERT, 0.9, 0}, {OP_EQUALIZE, 0.6, 0}},
                {{OP_EQUALIZE, 0.6, 0}, {OP_ROTATE, 0.9, 3}},
                {{OP_SHEAR_X, 0.9, 4}, {OP_AUTO_CONTRAST, 0.8, 0}},
                {{OP_SHEAR_Y, 0.9, 8}, {OP_INVERT, 0.4, 0}},
                {{OP_SHEAR_Y, 0.9, 5}, {OP_SOLARIZE, 0.2, 6}},
                {{OP_INVERT, 0.9, 0}, {OP_AUTO_CONTRAST, 0.8, 0}},
                {{OP_EQUALIZE, 0.6, 0}, {OP_ROTATE, 0.9, 3}},
                {{OP_SHEAR_X, 0.9, 4}, {OP_SOLARIZE, 0.3, 3}},
                {{OP_SHEAR_Y, 0.8, 8}, {OP_INVERT, 0.7, 0}},
                {{OP_EQUALIZE, 0.9, 0}, {OP_TRANSLATE_Y, 0.6, 6}},
                {{OP_INVERT, 0.9, 0}, {OP_EQUALIZE, 0.6, 0}},
                {{OP_CONTRAST, 0.3, 3}, {OP_ROTATE, 0.8, 4}},
                {{OP_INVERT, 0.8, 0}, {OP_TRANSLATE_Y, 0, 2}},
                {{OP_SHEAR_Y, 0.7, 6}, {OP_SOLARIZE, 0.4, 8}},
                {{OP_INVERT, 0.6, 0}, {OP_ROTATE, 0.8, 4}},
                {{OP_SHEAR_Y, 0.3, 7}, {OP_TRANSLATE_X, 0.9, 3}},
                {{OP_SHEAR_X, 0.1, 6}, {OP_INVERT, 0.6, 0}},
                {{OP_SOLARIZE, 0.7, 2}, {OP_TRANSLATE_Y, 0.6, 7}},
                {{OP_SHEAR_Y, 0.8, 4}, {OP_INVERT, 0.8, 0}},
                {{OP_SHEAR_X, 0.7, 9}, {OP_TRANSLATE_Y, 0.8, 3}},
                {{OP_SHEAR_Y, 0.8, 5}, {OP_AUTO_CONTRAST, 0.7, 0}},
                {{OP_SHEAR_X, 0.7, 2}, {OP_INVERT, 0.1, 0}},
            },
};

typedef struct auto_augment {
  int policy;
  mr_augment_t a;
} auto_augment_t;

static mr_err_t auto_augment_plan(mr_stage_t *s) {
  auto_augment_t *t = s->state;
  MR_TRY(mr_augment_plan(s, &t->a));
  return mr_needs_generator(s, NULL);
}

static mr_err_t auto_augment_map(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) {
  const auto_augment_t *t = s->state;
  const mr_pixels_t *px = &t->a.in;
  int f = px->field;
  MR_TRY(mr_canvas_open(s, px, &in->field[f], out->field[f].data));
  const policy_step_t *step = policy[t->policy][mr_philox_integers(in->rng, 0, PAIRS)];
  for (int k = 0; k < 2; k++) {
    mr_augment_op_t op = (mr_augment_op_t)step[k].op;
    if (!(mr_philox_random(in->rng) <= step[k].p)) continue;
    float magnitude = mr_augment_magnitude(&mr_augment_usual, op, BINS, step[k].bin, px->H, px->W);
    mr_augment_apply(s, &t->a, op, magnitude, in->rng, out);
  }
  mr_canvas_close(s, px, out->field[f].data);
  return MR_OK;
}

static const mr_opt_t auto_augment_opts[] = {{.name = "policy",
                                              .type = MR_OPT_ENUM,
                                              .offset = offsetof(auto_augment_t, policy),
                                              .def = "imagenet",
                                              .choices = "imagenet|cifar10|svhn",
                                              .positional = 1,
                                              .help = "Data set for which the pairs were learned."},
                                             MR_AUGMENT_OPTS(auto_augment_t, a),
                                             {0}};

static const mr_hint_t auto_augment_words[] = {{"autoaug", "auto-augment imagenet", NULL}, {0}};

const mr_stage_def_t mr_stage_auto_augment = {
    .name = "auto-augment",
    .hint = auto_augment_words,
    .help = "Applies one of 25 learned pairs of operations to pictures (AutoAugment).",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = auto_augment_opts,
    .state_sz = sizeof(auto_augment_t),
    .plan = auto_augment_plan,
    .map =
        &(const mr_map_def_t){
            .run = auto_augment_map, .leave = mr_canvas_leave, .draw_text = mr_augment_draw_text},
};
