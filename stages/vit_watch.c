#include "stages/vit_watch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 16 }; /* sums side by side, so that the compiler can use vectors */

double mr_vit_norm(const float *x, size_t n) {
  double sum = 0;
  for (size_t at = 0; at < n;) {
    float lane[LANES] = {0};
    size_t end = n - at > 4096 ? at + 4096 : n, whole = at + (end - at) / LANES * LANES;
    for (; at < whole; at += LANES)
      for (int l = 0; l < LANES; l++) lane[l] += x[at + (size_t)l] * x[at + (size_t)l];
    for (; at < end; at++) lane[0] += x[at] * x[at];
    for (int l = 0; l < LANES; l++) sum += (double)lane[l];
  }
  return sqrt(sum);
}

/* ---- histograms ---- */

static void measure(const float *x, int64_t n, mr_histogram_t *h) {
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

void mr_histogram_of(const char *kind, const char *name, const float *x, int64_t n,
                     mr_histogram_t *out) {
  *out = (mr_histogram_t){0};
  snprintf(out->name, sizeof out->name, "%s/%s", kind, name);
  measure(x, n, out);
  double width = out->max - out->min, per = width > 0 ? MR_HISTOGRAM_BINS / width : 0;
  for (int64_t i = 0; i < n; i++) {
    if (!isfinite(x[i])) continue;
    int bin = (int)(((double)x[i] - out->min) * per);
    out->count[bin < MR_HISTOGRAM_BINS ? bin : MR_HISTOGRAM_BINS - 1]++;
  }
}

void mr_vit_watch_before(mr_vit_watch_t *w, const mr_params_t *params) {
  if (!w->m) w->m = malloc(params->arena_size * sizeof *w->m);
  if (w->m) memcpy(w->m, params->m, params->arena_size * sizeof *w->m);
}

void mr_vit_watch_fini(mr_vit_watch_t *w) {
  free(w->m);
  w->m = NULL;
}

/* In place: the noted moments of a tensor are needed once. */
static const float *gradients(float *m, const float *after, float b1, size_t n) {
  float by = 1 / (1 - b1);
  for (size_t i = 0; i < n; i++) m[i] = (after[i] - b1 * m[i]) * by;
  return m;
}

void mr_vit_watch_histograms(const mr_vit_watch_t *w, const mr_params_t *params, float b1,
                             int first, mr_metrics_t *out) {
  for (int i = first; i < 2 * params->n && out->n_histograms < MR_METRICS_HISTOGRAMS_MAX; i++) {
    const mr_param_t *p = &params->param[i % params->n];
    mr_histogram_t *h = &out->histogram[out->n_histograms];
    if (i >= params->n && !w->m) return;
    const float *x = i < params->n
                         ? params->p + p->offset
                         : gradients(w->m + p->offset, params->m + p->offset, b1, p->size);
    mr_histogram_of(i < params->n ? "weights" : "gradients", p->name, x, (int64_t)p->size, h);
    out->n_histograms++;
  }
}

/* ---- pictures ---- */

static uint8_t byte_of(const mr_spec_t *spec, float v, int c) {
  float std = spec->std[c] > 0 ? spec->std[c] : 1;
  float x = (v * std + spec->mean[c]) * 255 + .5f;
  return x < 0 ? 0 : x > 255 ? 255 : (uint8_t)x;
}

void mr_vit_picture(const mr_spec_t *spec, const mr_buf_t *batch, int i, int guess,
                    mr_metrics_t *out) {
  mr_picture_t *p = &out->picture;
  int64_t H = spec->dim[1], W = spec->dim[2], C = spec->dim[3];
  const float *x = (const float *)batch->data + i * H * W * C;
  *p = (mr_picture_t){.truth = batch->label[i], .guess = guess, .key = batch->key[i]};
  p->height = (int32_t)(H < MR_PICTURE_SIDE ? H : MR_PICTURE_SIDE);
  p->width = (int32_t)(W < MR_PICTURE_SIDE ? W : MR_PICTURE_SIDE);
  for (int64_t r = 0; r < p->height; r++)
    for (int64_t k = 0; k < p->width; k++)
      for (int64_t c = 0; c < 3; c++) {
        int64_t from = C == 3 ? c : 0; /* one channel: grey */
        float v = x[(r * H / p->height * W + k * W / p->width) * C + from];
        p->rgb[(r * p->width + k) * 3 + c] = byte_of(spec, v, (int)from);
      }
}
