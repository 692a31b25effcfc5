/* What train-step shows of itself: histograms of weights and gradients, and sample pictures as
   bytes.  Gradients are not kept by the step; they are computed back from the optimizer's first
   slot before and after the update, which costs nothing in steps without a histogram. */
#include "stages/train/watch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- histograms ---- */

static void watch_measure(const float *x, int64_t n, mr_histogram_t *h) {
  h->min = INFINITY, h->max = -INFINITY;
  for (int64_t i = 0; i < n; i++) {
    double v = (double)x[i];
    if (!isfinite(v)) continue;
    h->min = v < h->min ? v : h->min, h->max = v > h->max ? v : h->max;
    h->sum += v, h->sum_squares += v * v;
    h->n++;
  }
  if (!h->n) h->min = h->max = 0;
}

static void histogram_of(const char *kind, const char *name, const float *x, int64_t n,
                         mr_histogram_t *out) {
  *out = (mr_histogram_t){0};
  snprintf(out->name, sizeof out->name, "%s/%s", kind, name);
  watch_measure(x, n, out);
  double width = out->max - out->min, per = width > 0 ? MR_HISTOGRAM_BINS / width : 0;
  for (int64_t i = 0; i < n; i++) {
    if (!isfinite(x[i])) continue;
    int bin = (int)(((double)x[i] - out->min) * per);
    out->count[bin < MR_HISTOGRAM_BINS ? bin : MR_HISTOGRAM_BINS - 1]++;
  }
}

/* Tensor k of a set as f32 into to[size]. */
static void watch_read(const mr_params_t *params, mr_set_kind_t kind, int k, float *to) {
  const mr_param_set_t *set = mr_params_set(params, kind, 0);
  for (size_t i = 0; i < params->param[k].size; i++) to[i] = mr_params_read(params, set, k, i);
}

static mr_set_kind_t watched_set(const mr_train_watch_t *w) {
  return w->of_p ? MR_SET_VALUES : MR_SET_SLOT;
}

bool mr_train_watch_before(mr_train_watch_t *w, const mr_optim_t *o, float lr,
                           const mr_params_t *params) {
  bool narrow = mr_params_set(params, MR_SET_VALUES, 0)->dtype != MR_F32;
  size_t bytes = params->arena_size * (1 + narrow) * sizeof *w->before;
  bool lion = o->def == &mr_optim_lion, momentum = o->def == &mr_optim_momentum;
  w->of_p = o->def->n_slots == 0;
  w->decay = w->of_p ? 1 : lion ? o->b2 : o->b1;
  w->gain = w->of_p ? -lr : momentum ? 1 : 1 - w->decay;
  if (w->of_p && narrow) w->gain = 0; /* what rounding has left of an update says too little */
  if (!w->before) w->before = malloc(bytes);
  if (!w->before) return false;
  for (int k = 0; k < params->n; k++)
    watch_read(params, watched_set(w), k, w->before + params->param[k].offset);
  return true;
}

void mr_train_watch_fini(mr_train_watch_t *w) {
  free(w->before), free(w->each);
  w->before = NULL, w->each = NULL;
}

/* What tensor k's slot, or the tensor itself, has moved by for a gradient of 1; 0: its gradients
   do not follow from that. */
static float gain_of(const mr_train_watch_t *w, int k) {
  if (!w->each) return w->gain;
  return w->each[k].frozen ? 0 : w->of_p ? w->gain * w->each[k].rate : w->gain;
}

/* Computes gradients in place: the saved values of a tensor are used once. */
static const float *compute_gradients(const mr_train_watch_t *w, const mr_params_t *params, int k) {
  float gain = gain_of(w, k);
  const mr_param_set_t *set = mr_params_set(params, watched_set(w), 0);
  float *was = w->before + params->param[k].offset;
  for (size_t i = 0; i < params->param[k].size; i++)
    was[i] = (mr_params_read(params, set, k, i) - w->decay * was[i]) / gain;
  return was;
}

/* The weights of tensor k; those that are not f32 are converted into the second half. */
static const float *weights_of(const mr_train_watch_t *w, const mr_params_t *params, int k) {
  const mr_param_set_t *set = mr_params_set(params, MR_SET_VALUES, 0);
  if (set->dtype == MR_F32) return mr_params_at(params, set, k);
  float *copy = w->before + params->arena_size + params->param[k].offset;
  watch_read(params, MR_SET_VALUES, k, copy);
  return copy;
}

void mr_train_watch_histograms(const mr_train_watch_t *w, const mr_params_t *params,
                               mr_report_t *out) {
  for (int i = 0; i < 2 * params->n; i++) {
    const mr_param_t *p = &params->param[i % params->n];
    bool weights = i < params->n;
    if (!weights && gain_of(w, i - params->n) == 0) continue;
    mr_histogram_t *h = mr_report_add_histogram(out);
    if (!h) return;
    const float *x =
        weights ? weights_of(w, params, i) : compute_gradients(w, params, i - params->n);
    histogram_of(weights ? "weights" : "gradients", p->name, x, (int64_t)p->size, h);
  }
}

/* ---- pictures ---- */

static uint8_t byte_of(const mr_field_t *f, float v, int c) {
  float std = f->std[c] > 0 ? f->std[c] : 1;
  float x = (v * std + f->mean[c]) * 255 + .5f;
  return x < 0 ? 0 : x > 255 ? 255 : (uint8_t)x;
}

/* The byte that element `at` of a value was made of, of channel c. */
static uint8_t picture_byte(const mr_field_t *f, const void *value, int64_t at, int c) {
  if (f->dtype == MR_U8) return ((const uint8_t *)value)[at];
  if (f->dtype == MR_BF16) return byte_of(f, mr_bf16_to_f32(((const mr_bf16_t *)value)[at]), c);
  return byte_of(f, ((const float *)value)[at], c);
}

void mr_train_picture(const mr_field_t *image, const void *value, mr_picture_t *p) {
  int64_t H = image->dim[0], W = image->dim[1], C = image->dim[2];
  p->height = (int32_t)(H < MR_PICTURE_SIDE ? H : MR_PICTURE_SIDE);
  p->width = (int32_t)(W < MR_PICTURE_SIDE ? W : MR_PICTURE_SIDE);
  for (int64_t r = 0; r < p->height; r++)
    for (int64_t k = 0; k < p->width; k++)
      for (int64_t c = 0; c < 3; c++) {
        int64_t from = C == 3 ? c : 0; /* one channel: grey */
        int64_t at = (r * H / p->height * W + k * W / p->width) * C + from;
        p->rgb[(r * p->width + k) * 3 + c] = picture_byte(image, value, at, (int)from);
      }
}
