/* Pictures of bytes to normalised floats: (x/255 - mean) / std for each channel. */
#include "pipeline/stage.h"
#include "stages/norm.h"

enum { PRESET_NONE, PRESET_CIFAR10 };
static const mr_dtype_t dtypes[] = {MR_F32, MR_BF16, MR_U8}; /* as the setting lists them */

typedef struct normalize {
  int preset, layout, dtype;
  double mean[3], std[3];
  int pixels;
  mr_norm_t norm;
} normalize_t;

static const double cifar10_mean[3] = {0.4914, 0.4822, 0.4465},
                    cifar10_std[3] = {0.2023, 0.1994, 0.2010};

static mr_err_t normalize_plan(mr_stage_t *s) {
  normalize_t *t = s->state;
  const mr_spec_t *in = &s->in_spec[0];
  if (in->dtype != MR_U8 || in->ndim != 3 || in->layout != MR_LAYOUT_CHW || in->dim[0] != 3)
    return mr_stage_fail(s, MR_ERR_SHAPE, "takes u8 pictures of 3 channels in CHW");
  for (int c = 0; c < 3; c++)
    if (t->preset == PRESET_NONE && !(t->std[c] > 0))
      return mr_stage_fail(s, MR_ERR_CONFIG, "std of channel %d is %g, want more than 0", c,
                           t->std[c]);
  t->pixels = (int)(in->dim[1] * in->dim[2]);
  mr_spec_t *out = &s->out_spec[0];
  *out = *in;
  out->dtype = dtypes[t->dtype];
  for (int c = 0; c < 3; c++) {
    out->mean[c] = (float)(t->preset == PRESET_NONE ? t->mean : cifar10_mean)[c];
    out->std[c] = (float)(t->preset == PRESET_NONE ? t->std : cifar10_std)[c];
  }
  if (t->layout == 0) {
    out->layout = MR_LAYOUT_HWC;
    out->dim[0] = in->dim[1], out->dim[1] = in->dim[2], out->dim[2] = 3;
  }
  return MR_OK;
}

static mr_err_t normalize_open(mr_stage_t *s) {
  normalize_t *t = s->state;
  bool own = t->preset == PRESET_NONE;
  mr_norm_init(&t->norm, own ? t->mean : cifar10_mean, own ? t->std : cifar10_std, true);
  return MR_OK;
}

static mr_err_t normalize_map(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) {
  const normalize_t *t = s->state;
  mr_norm(&t->norm, in->data, t->pixels, t->layout == 0, dtypes[t->dtype], out->data);
  return MR_OK;
}

static const mr_opt_t normalize_opts[] = {
    {"preset", MR_OPT_ENUM, offsetof(normalize_t, preset), "", "none", 0, 0, "none|cifar10",
     "Takes mean and std of a known dataset instead of the settings below.", 0},
    {"mean", MR_OPT_VEC3, offsetof(normalize_t, mean), "", "0,0,0", -1e6, 1e6, NULL,
     "Taken from each channel of values in [0,1].", 0},
    {"std", MR_OPT_VEC3, offsetof(normalize_t, std), "", "1,1,1", 0, 1e6, NULL,
     "Each channel is divided by it; more than 0.", 0},
    {"layout", MR_OPT_ENUM, offsetof(normalize_t, layout), "", "hwc", 0, 0, "hwc|chw",
     "Order of the axes that come out.", 0},
    {"dtype", MR_OPT_ENUM, offsetof(normalize_t, dtype), "", "f32", 0, 0, "f32|bf16|u8",
     "Type of what comes out; u8: the bytes as they are, in the layout asked for.", 0},
    {0}};

const mr_stage_def_t mr_stage_normalize = {
    .name = "normalize",
    .help = "Turns bytes into floats: (x/255 - mean) / std for each channel.",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = normalize_opts,
    .state_sz = sizeof(normalize_t),
    .plan = normalize_plan,
    .open = normalize_open,
    .map = normalize_map,
};
