/* normalize: turns pictures of bytes into floats, (x/255 - mean) / std for each channel.  A byte
   has 256 values, so the results are tables that norm.c looks up or computes; here are
   the settings, the presets, and which of the two ways fits the input. */
#include "pipeline/stage_map.h"
#include "stages/norm.h"
#include "stages/pixels.h"

enum { PRESET_NONE, PRESET_CIFAR10, PRESET_IMAGENET };
static const mr_dtype_t dtypes[] = {MR_F32, MR_BF16, MR_U8}; /* as the setting lists them */

typedef struct normalize {
  const char *field;
  int preset, layout, dtype;
  mr_vec_t mean, std;
  mr_pixels_t in;
  mr_norm_t norm;    /* three planes */
  mr_norm_any_t any; /* everything else */
} normalize_t;

static const struct {
  const char *name;
  mr_vec_t mean, std;
} presets[] = {
    [PRESET_CIFAR10] = {"cifar10", {3, {0.4914, 0.4822, 0.4465}}, {3, {0.2023, 0.1994, 0.2010}}},
    [PRESET_IMAGENET] = {"imagenet", {3, {0.485, 0.456, 0.406}}, {3, {0.229, 0.224, 0.225}}},
};

/* Spreads a single number over all channels, or checks that there is one for each. */
static mr_err_t normalize_spread(mr_stage_t *s, const char *name, mr_vec_t *v) {
  const normalize_t *t = s->state;
  if (v->n != 1 && v->n != t->in.C)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting %s: %d numbers for pictures of %d channel%s, want one for each, "
                         "or one for all",
                         name, v->n, t->in.C, t->in.C == 1 ? "" : "s");
  for (int c = v->n; c < t->in.C; c++) v->v[c] = v->v[0];
  v->n = t->in.C;
  return MR_OK;
}

static void plan_output(mr_stage_t *s) {
  const normalize_t *t = s->state;
  mr_field_t *out = &s->out_spec[0].field[t->in.field];
  bool hwc = t->layout == 0;
  s->out_spec[0] = s->in_spec[0];
  out->dtype = dtypes[t->dtype];
  out->layout = hwc ? MR_LAYOUT_HWC : MR_LAYOUT_CHW;
  out->ndim = 3;
  out->dim[hwc ? 2 : 0] = t->in.C, out->dim[hwc ? 0 : 1] = t->in.H;
  out->dim[hwc ? 1 : 2] = t->in.W;
  for (int c = 0; c < t->in.C && t->in.C <= 3; c++) /* a field has room for three */
    out->mean[c] = (float)t->mean.v[c], out->std[c] = (float)t->std.v[c];
}

static mr_err_t normalize_plan(mr_stage_t *s) {
  normalize_t *t = s->state;
  MR_TRY(mr_pixels_plan(s, t->field, MR_CHANNELS_MAX, INT16_MAX, &t->in));
  if (t->preset) t->mean = presets[t->preset].mean, t->std = presets[t->preset].std;
  if (t->preset && t->in.C != 3)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting preset = %s: has 3 channels, and the pictures have %d; "
                         "set mean= and std=",
                         presets[t->preset].name, t->in.C);
  MR_TRY(normalize_spread(s, "mean", &t->mean));
  MR_TRY(normalize_spread(s, "std", &t->std));
  for (int c = 0; c < t->in.C; c++)
    if (!(t->std.v[c] > 0))
      return mr_stage_fail(s, MR_ERR_CONFIG, "std of channel %d is %g, want more than 0", c,
                           t->std.v[c]);
  return plan_output(s), MR_OK;
}

static bool is_three_planes(const normalize_t *t) { return t->in.C == 3 && !t->in.hwc; }

static mr_err_t normalize_open(mr_stage_t *s) {
  normalize_t *t = s->state;
  if (is_three_planes(t))
    mr_norm_init(&t->norm, t->mean.v, t->std.v, true);
  else
    mr_norm_any_init(&t->any, t->in.C, t->mean.v, t->std.v);
  return MR_OK;
}

static mr_err_t normalize_map(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) {
  const normalize_t *t = s->state;
  int n = t->in.H * t->in.W;
  const void *from = in->field[t->in.field].data;
  void *to = out->field[t->in.field].data;
  bool hwc = t->layout == 0;
  if (is_three_planes(t))
    mr_norm(&t->norm, from, n, hwc, dtypes[t->dtype], to);
  else
    mr_norm_any(&t->any, from, n, t->in.hwc, hwc, dtypes[t->dtype], to);
  return MR_OK;
}

static const mr_hint_t layout_values[] = {
    {"nchw channelsfirst", "chw", NULL}, {"nhwc channelslast", "hwc", NULL}, {0}};

static const mr_opt_t normalize_opts[] = {
    {.name = "preset",
     .type = MR_OPT_ENUM,
     .offset = offsetof(normalize_t, preset),
     .def = "none",
     .choices = "none|cifar10|imagenet",
     .help = "Uses mean and std of a known data set instead of the settings below."},
    {.name = "mean",
     .hint = "means",
     .type = MR_OPT_VEC,
     .offset = offsetof(normalize_t, mean),
     .def = "0",
     .lo = -1e6,
     .hi = 1e6,
     .help = "Subtracted from each channel of values in [0,1]; a single number applies to all "
             "channels."},
    {.name = "std",
     .hint = "stdev stds sd stddev",
     .type = MR_OPT_VEC,
     .offset = offsetof(normalize_t, std),
     .def = "1",
     .hi = 1e6,
     .help = "Divisor of each channel, above 0; a single number applies to all channels."},
    {.name = "layout",
     .hint = "dataformat memoryformat imagedataformat outputlayout",
     .values = layout_values,
     .type = MR_OPT_ENUM,
     .offset = offsetof(normalize_t, layout),
     .def = "hwc",
     .choices = "hwc|chw",
     .help = "Order of the output axes."},
    {.name = "dtype",
     .hint = "type outputtype outputdtype",
     .values = mr_dtype_hints,
     .type = MR_OPT_ENUM,
     .offset = offsetof(normalize_t, dtype),
     .def = "f32",
     .choices = "f32|bf16|u8",
     .help =
         "Output type; bf16: rounded; u8: the bytes, of at most three channels for a step, in the "
         "chosen layout, which train-step and eval-step then normalise."},
    MR_PIXELS_OPT(normalize_t, field),
    {0}};

static const mr_hint_t normalize_words[] = {
    {"normalizeimage cropmirrornormalize", "normalize mean=0.485,0.456,0.406 std=0.229,0.224,0.225",
     "stage \"normalize\" divides by 255 first, so mean= and std= are in [0,1]"},
    {"totensor totensorv2 totorchimage convertimagedtype todtype rescaling", "normalize layout=chw",
     "stage \"normalize\" divides by 255 and makes floats"},
    {"normalise standardize standardise normalization", "normalize",
     "it is spelt \"normalize\" here"},
    {0}};

const mr_stage_def_t mr_stage_normalize = {
    .name = "normalize",
    .hint = normalize_words,
    .help = "Turns bytes into floats: (x/255 - mean) / std for each channel.",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = normalize_opts,
    .state_sz = sizeof(normalize_t),
    .plan = normalize_plan,
    .open = normalize_open,
    .map = &(const mr_map_def_t){.run = normalize_map},
};
