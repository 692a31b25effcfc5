/* Resampling with any of Pillow's filters to any size: the weights, the plain passes, and their
   order.  Only the wanted box of the result is computed, and the part of the source that it needs
   is known before, so that a decoder need not decode the rest.  The small pictures of resized-crop
   have faster code (pil_*.c). */
#include "stages/resample.h"

#include <math.h>
#include <string.h>

#include "base/isa.h"

const mr_hint_t mr_filter_hints[] = {{"linear interplinear triangle", "bilinear", NULL},
                                     {"interpcubic", "bicubic", NULL},
                                     {"interplanczos3", "lanczos", NULL},
                                     {"interpnn nearestexact", "nearest", NULL},
                                     {0}};

enum { BITS = 22 };

/* ---- filters, as Pillow defines them ---- */

static double filter_box(double x) { return x > -0.5 && x <= 0.5; }

static double filter_bilinear(double x) {
  x = fabs(x);
  return x < 1.0 ? 1.0 - x : 0.0;
}

static double filter_hamming(double x) {
  x = fabs(x);
  if (x == 0.0) return 1.0;
  if (x >= 1.0) return 0.0;
  x *= M_PI;
  return sin(x) / x * (0.54f + 0.46f * cos(x));
}

static double filter_bicubic(double x) {
  const double a = -0.5;
  x = fabs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
  return x < 2.0 ? (((x - 5) * x + 8) * x - 4) * a : 0.0;
}

static double filter_sinc(double x) {
  x *= M_PI;
  return x == 0.0 ? 1.0 : sin(x) / x;
}

static double filter_lanczos(double x) {
  return -3.0 <= x && x < 3.0 ? filter_sinc(x) * filter_sinc(x / 3) : 0.0;
}

static const struct {
  double (*at)(double x);
  double support;
} filters[] = {
    [MR_FILTER_BILINEAR] = {filter_bilinear, 1}, [MR_FILTER_BICUBIC] = {filter_bicubic, 2},
    [MR_FILTER_LANCZOS] = {filter_lanczos, 3},   [MR_FILTER_HAMMING] = {filter_hamming, 1},
    [MR_FILTER_BOX] = {filter_box, 0.5},
};

/* ---- weights ---- */

/* A pixel at `center` of inputs [least,most): its weights into q[taps], zeros behind them; returns
   how many there are.  Weights are computed twice, once for their sum, which saves memory for
   them. */
static int resample_pixel(mr_filter_t f, double center, double scale, int least, int most,
                          int *first, int32_t *q, int taps) {
  double sum = 0, stretch = scale < 1 ? 1 : scale;
  double support = filters[f].support * stretch, inverse = 1 / stretch;
  int lo = (int)(center - support + 0.5), hi = (int)(center + support + 0.5);
  if (lo < least) lo = least;
  if (hi > most) hi = most;
  if (lo > most - 1) lo = most - 1;
  for (int k = 0; k < hi - lo; k++) sum += filters[f].at((k + lo - center + 0.5) * inverse);
  for (int k = 0; k < taps; k++) {
    double v = k < hi - lo ? filters[f].at((k + lo - center + 0.5) * inverse) : 0;
    if (sum != 0) v /= sum;
    q[k] = (int32_t)((v < 0 ? -0.5 : 0.5) + v * (1 << BITS));
  }
  *first = lo;
  return hi - lo > 1 ? hi - lo : 1;
}

/* Pillow adds steps up, which a product would not give bit for bit. */
static void resample_nearest(int in, int out, int from, mr_weights_t *t) {
  double step = (double)in / out, at = step * 0.5;
  for (int x = 0; x < from + t->n; x++, at += step) {
    if (x < from) continue;
    int k = x - from;
    t->first[k] = (int)at < in ? (int)at : in - 1, t->count[k] = 1;
    memset(t->q + k * t->taps, 0, (size_t)t->taps * sizeof *t->q);
    t->q[k * t->taps] = 1 << BITS;
  }
}

/* The weights in the forms that the fast passes take. */
static void resample_split(mr_weights_t *t) {
  for (int i = 0; i < t->n * t->taps; i++) {
    int16_t *to = t->halves + i / 4 * 8 + i % 4;
    int8_t *bytes = t->bytes + i / 4 * 12 + i % 4;
    to[0] = (int16_t)(t->q[i] >> 11), to[4] = (int16_t)(t->q[i] & 2047);
    bytes[0] = (int8_t)t->q[i];
    int32_t rest = (t->q[i] - bytes[0]) / 256;
    bytes[4] = (int8_t)rest, bytes[8] = (int8_t)((rest - (int8_t)rest) / 256);
  }
}

/* Memory m for the weights of n pixels. */
static mr_err_t resample_memory(mr_filter_t f, double scale, int n, mr_grown_t *m, mr_weights_t *t,
                                mr_diag_t *diag) {
  double stretch = scale < 1 ? 1 : scale;
  int taps = f == MR_FILTER_NEAREST ? 1 : (int)ceil(filters[f].support * stretch) * 2 + 1;
  t->n = n, t->taps = (taps + 3) / 4 * 4;
  size_t all = (size_t)n * (size_t)t->taps;
  MR_TRY(mr_grow(m, 2 * (size_t)n * sizeof(int) + 11 * all, diag));
  t->halves = (int16_t *)m->at, t->q = (int32_t *)(t->halves + 2 * all);
  t->first = (int *)(t->q + all), t->count = t->first + n;
  t->bytes = (int8_t *)(t->count + n);
  return MR_OK;
}

/* The weights of pixels [from,from+n) of a pass, in memory m. */
static mr_err_t resample_weights(mr_filter_t f, int in, int out, int from, int n, mr_grown_t *m,
                                 mr_weights_t *t, mr_diag_t *diag) {
  double scale = (double)in / out;
  MR_TRY(resample_memory(f, scale, n, m, t, diag));
  if (f == MR_FILTER_NEAREST) resample_nearest(in, out, from, t);
  for (int x = 0; x < n && f != MR_FILTER_NEAREST; x++)
    t->count[x] = resample_pixel(f, (from + x + 0.5) * scale, scale, 0, in, &t->first[x],
                                 t->q + x * t->taps, t->taps);
  resample_split(t);
  return MR_OK;
}

mr_err_t mr__resample_span(const mr_span_t *s, mr_grown_t *m, mr_weights_t *t, mr_diag_t *diag) {
  MR_TRY(resample_memory(MR_FILTER_BILINEAR, s->scale, s->n, m, t, diag));
  for (int x = 0; x < s->n; x++)
    t->count[x] = resample_pixel(MR_FILTER_BILINEAR, s->begin + (x + 0.5) * s->scale, s->scale,
                                 s->lo, s->hi, &t->first[x], t->q + x * t->taps, t->taps);
  resample_split(t);
  return MR_OK;
}

/* ---- plain passes ---- */

static uint8_t resample_clip(int32_t sum) {
  sum >>= BITS;
  return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

void mr__resample_down(const mr_weights_t *t, int base, mr_part_t src, size_t bytes, uint8_t *dst) {
  for (int y = 0; y < t->n; y++, dst += bytes) {
    const uint8_t *from = src.data + (size_t)(t->first[y] - base) * src.stride;
    for (size_t x = 0; x < bytes; x++) {
      int32_t sum = 1 << (BITS - 1);
      for (int k = 0; k < t->count[y]; k++)
        sum += from[(size_t)k * src.stride + x] * t->q[y * t->taps + k];
      dst[x] = resample_clip(sum);
    }
  }
}

void mr__resample_across(const mr_weights_t *t, int base, mr_part_t src, int C, int h,
                         uint8_t *dst) {
  for (int y = 0; y < h; y++)
    for (int x = 0; x < t->n; x++) {
      const uint8_t *from = src.data + (size_t)y * src.stride + (size_t)((t->first[x] - base) * C);
      for (int c = 0; c < C; c++) {
        int32_t sum = 1 << (BITS - 1);
        for (int k = 0; k < t->count[x]; k++) sum += from[k * C + c] * t->q[x * t->taps + k];
        *dst++ = resample_clip(sum);
      }
    }
}

/* ---- order ---- */

void mr_resampler_free(mr_resampler_t *r) {
  mr_grown_free(&r->memory[0]), mr_grown_free(&r->memory[1]);
  mr_grown_free(&r->rows), mr_grown_free(&r->turned);
}

/* The input that a pass reads: *from and *n pixels. */
static void resample_reach(const mr_weights_t *t, int *from, int *n) {
  int end = 0;
  *from = t->first[0];
  for (int x = 0; x < t->n; x++) {
    if (t->first[x] < *from) *from = t->first[x];
    if (t->first[x] + t->count[x] > end) end = t->first[x] + t->count[x];
  }
  *n = end - *from;
}

mr_err_t mr_resample_begin(mr_resampler_t *r, const mr_resize_t *how, mr_box_t out, mr_box_t *need,
                           mr_diag_t *diag) {
  *need = out;
  if (how->in_h != how->out_h) {
    MR_TRY(resample_weights(how->filter, how->in_h, how->out_h, out.i, out.h, &r->memory[0],
                            &r->down, diag));
    resample_reach(&r->down, &need->i, &need->h);
  }
  if (how->in_w != how->out_w) {
    MR_TRY(resample_weights(how->filter, how->in_w, how->out_w, out.j, out.w, &r->memory[1],
                            &r->across, diag));
    resample_reach(&r->across, &need->j, &need->w);
  }
  return MR_OK;
}

static bool resample_is_vnni(const mr_resampler_t *r) {
  return !r->plain && !r->avx2 && mr_isa() >= MR_ISA_AVX512 && mr__resample_has_vnni();
}

void mr__resample_down_best(const mr_resampler_t *r, const mr_weights_t *t, int base, mr_part_t src,
                            size_t bytes, uint8_t *dst) {
  if (resample_is_vnni(r))
    mr__resample_down_vnni(t, base, src, bytes, dst);
  else if (!r->plain && mr_isa() >= MR_ISA_AVX2)
    mr__resample_down_avx2(t, base, src, bytes, dst);
  else
    mr__resample_down(t, base, src, bytes, dst);
}

static void go_down(const mr_resampler_t *r, int base, mr_part_t src, size_t bytes, uint8_t *dst) {
  mr__resample_down_best(r, &r->down, base, src, bytes, dst);
}

static void go_across(const mr_resampler_t *r, int base, mr_part_t src, int C, int h,
                      uint8_t *dst) {
  if (C == 3 && resample_is_vnni(r))
    mr__resample_across_vnni(&r->across, base, src, h, dst);
  else if (!r->plain && C == 3 && mr_isa() >= MR_ISA_AVX2)
    mr__resample_across_avx2(&r->across, base, src, h, dst);
  else
    mr__resample_across(&r->across, base, src, C, h, dst);
}

mr_err_t mr_resample(mr_resampler_t *r, const mr_resize_t *how, mr_box_t need, mr_part_t src,
                     uint8_t *dst, mr_diag_t *diag) {
  bool down = how->in_h != how->out_h, across = how->in_w != how->out_w;
  int less_h = how->in_h - how->out_h, less_w = how->in_w - how->out_w;
  bool down_first = !how->across_first && less_h > 0 && less_h > 2 * less_w;
  size_t wide = (size_t)(need.w * how->C), narrow = (size_t)(r->across.n * how->C);
  if (!down && !across) {
    for (int y = 0; y < need.h; y++)
      memcpy(dst + (size_t)y * wide, src.data + (size_t)y * src.stride, wide);
  } else if (!across) {
    go_down(r, need.i, src, wide, dst);
  } else if (!down) {
    go_across(r, need.j, src, how->C, need.h, dst);
  } else if (down_first) {
    MR_TRY(mr_grow(&r->rows, (size_t)r->down.n * wide, diag));
    go_down(r, need.i, src, wide, r->rows.at);
    go_across(r, need.j, (mr_part_t){r->rows.at, wide}, how->C, r->down.n, dst);
  } else {
    MR_TRY(mr_grow(&r->rows, (size_t)need.h * narrow, diag));
    go_across(r, need.j, src, how->C, need.h, r->rows.at);
    go_down(r, need.i, (mr_part_t){r->rows.at, narrow}, narrow, dst);
  }
  return MR_OK;
}
