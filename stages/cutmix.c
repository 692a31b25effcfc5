/* cutmix: fills a box of each picture of a batch from the one before it, the same box in all, and
   blends the labels by its area: torchvision's CutMix. */
#include <math.h>
#include <string.h>

#include "stages/mix.h"

static int cutmix_clamp(int v, int most) { return v < 0 ? 0 : v > most ? most : v; }

static void cutmix_draw(const mr_mix_t *t, double lam, mr_philox_t *g, mr_mix_draw_t *d) {
  int x = (int)mr_philox_integers(g, 0, t->W), y = (int)mr_philox_integers(g, 0, t->H);
  double r = 0.5 * sqrt(1 - lam);
  int half_w = (int)(r * t->W), half_h = (int)(r * t->H);
  d->x1 = cutmix_clamp(x - half_w, t->W), d->x2 = cutmix_clamp(x + half_w, t->W);
  d->y1 = cutmix_clamp(y - half_h, t->H), d->y2 = cutmix_clamp(y + half_h, t->H);
  d->own = 1 - (double)((int64_t)(d->x2 - d->x1) * (d->y2 - d->y1)) / ((double)t->W * t->H);
}

static void cutmix_mix(const mr_mix_t *t, mr_dtype_t dtype, const mr_mix_draw_t *d, const void *own,
                       const void *other, void *out) {
  size_t row = (size_t)t->W * t->pixel, from = (size_t)d->x1 * t->pixel;
  memcpy(out, own, (size_t)t->planes * (size_t)t->H * row);
  for (int k = 0; k < t->planes; k++)
    for (int y = d->y1; y < d->y2; y++) {
      size_t at = (size_t)(k * t->H + y) * row + from;
      memcpy((char *)out + at, (const char *)other + at, (size_t)(d->x2 - d->x1) * t->pixel);
    }
}

static const mr_mix_kind_t cutmix_kind = {.tag = 2, .draw = cutmix_draw, .mix = cutmix_mix};

static mr_err_t cutmix_plan(mr_stage_t *s) { return mr_mix_plan(s, false); }
static mr_err_t cutmix_step(mr_stage_t *s) { return mr_mix_step(s, &cutmix_kind); }

const mr_stage_def_t mr_stage_cutmix = {
    .name = "cutmix",
    .help = "Fills a box of each picture of a batch from the one before it, and blends labels.",
    .in = {{"in", MR_FLOW_BATCHES, false}},
    .out = {{"out", MR_FLOW_BATCHES, false}},
    .opts = mr_mix_opts,
    .state_sz = sizeof(mr_mix_t),
    .plan = cutmix_plan,
    .step = &(const mr_step_def_t){.run = cutmix_step, .parallel = true},
};
