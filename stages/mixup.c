/* mixup: blends each picture of a batch, and its label, with the one before it: torchvision's
   MixUp, with its floats for the same share. */
#include <string.h>

#include "base/dtype.h"
#include "stages/mix.h"

static void mixup_draw(const mr_mix_t *t, double lam, mr_philox_t *g, mr_mix_draw_t *d) {
  d->own = lam;
}

static void mixup_mix(const mr_mix_t *t, mr_dtype_t dtype, const mr_mix_draw_t *d, const void *own,
                      const void *other, void *out) {
  size_t n = (size_t)t->planes * (size_t)t->H * (size_t)t->W * (t->pixel / mr_dtype_size(dtype));
  float keep = (float)d->own, take = (float)(1 - d->own);
  if (dtype == MR_F32) {
    const float *a = own, *b = other;
    float *to = out;
    for (size_t k = 0; k < n; k++) to[k] = b[k] * take + a[k] * keep;
    return;
  }
  const mr_bf16_t *a = own, *b = other;
  mr_bf16_t *to = out;
  for (size_t k = 0; k < n; k++)
    to[k] = mr_bf16_from_f32(mr_bf16_to_f32(b[k]) * take + mr_bf16_to_f32(a[k]) * keep);
}

static const mr_mix_kind_t mixup_kind = {.tag = 1, .draw = mixup_draw, .mix = mixup_mix};

static mr_err_t mixup_plan(mr_stage_t *s) { return mr_mix_plan(s, true); }
static mr_err_t mixup_step(mr_stage_t *s) { return mr_mix_step(s, &mixup_kind); }

const mr_stage_def_t mr_stage_mixup = {
    .name = "mixup",
    .help = "Blends each record of a batch with the one before it, pictures and labels.",
    .in = {{"in", MR_FLOW_BATCHES, false}},
    .out = {{"out", MR_FLOW_BATCHES, false}},
    .opts = mr_mix_opts,
    .state_sz = sizeof(mr_mix_t),
    .plan = mixup_plan,
    .step = &(const mr_step_def_t){.run = mixup_step, .parallel = true},
};
