/* gaussian-blur: blurs each picture with a Gaussian kernel of random width: torchvision's
   GaussianBlur, with the picture mirrored at its border.

   torchvision sums over a two-dimensional kernel in floats; here pictures are blurred down and then
   across, which rounds differently: about one byte in 100,000 differs, by 1. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pipeline/stage_map.h"
#include "stages/augment.h"

enum { KERNEL_MAX = 511 };

typedef struct gaussian_blur {
  const char *field, *kernel;
  double sigma[2];
  int kh, kw;
  mr_pixels_t in;
} gaussian_blur_t;

/* What a worker keeps; the canvas comes first, since it is the scratch that canvas.h speaks of. */
typedef struct gaussian_blur_worker {
  mr_canvas_t canvas;
  mr_grown_t row;
  float down[KERNEL_MAX], across[KERNEL_MAX];
} gaussian_blur_worker_t;

static mr_err_t gaussian_blur_plan(mr_stage_t *s) {
  gaussian_blur_t *t = s->state;
  MR_TRY(mr_canvas_plan(s, t->field, &t->in));
  s->scratch_bytes = sizeof(gaussian_blur_worker_t);
  int end = 0, n = sscanf(t->kernel, "%5d%nx%5d%n", &t->kh, &end, &t->kw, &end);
  if (n == 1) t->kw = t->kh;
  bool good = n >= 1 && !t->kernel[end] && t->kh >= 1 && t->kw >= 1 && t->kh % 2 && t->kw % 2 &&
              t->kh <= KERNEL_MAX && t->kw <= KERNEL_MAX;
  if (!good)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting kernel = %s: want N or HxW, odd numbers in [1,%d], such as 23",
                         t->kernel, KERNEL_MAX);
  if (t->kh / 2 >= t->in.H || t->kw / 2 >= t->in.W)
    return mr_stage_fail(s, MR_ERR_SHAPE,
                         "setting kernel = %s: half of it is mirrored at the border, and a picture "
                         "has %dx%d pixels; want at most %dx%d",
                         t->kernel, t->in.H, t->in.W, 2 * t->in.H - 1, 2 * t->in.W - 1);
  return t->sigma[0] == t->sigma[1] ? MR_OK : mr_needs_generator(s, "sigma=S:S, a fixed width");
}

static void gaussian_blur_leave(mr_stage_t *s) {
  mr_grown_free(&((gaussian_blur_worker_t *)s->scratch)->row);
  mr_canvas_leave(s);
}

/* torchvision's weights: the softmax of -(x/sigma)^2 over n places from -lim to lim. */
static void gaussian_weights(int n, float sigma, float *weight) {
  float lim = (float)((n - 1) / (2.0 * sqrt(2.0))), step = n > 1 ? 2 * lim / (float)(n - 1) : 0;
  double sum = 0;
  for (int k = 0; k <= n / 2; k++) {
    float x = (-lim + step * (float)k) / sigma;
    weight[k] = weight[n - 1 - k] = expf(-(x * x));
  }
  for (int k = 0; k < n; k++) sum += weight[k];
  for (int k = 0; k < n; k++) weight[k] = (float)(weight[k] / sum);
}

static inline int mirror_index(int k, int n) { return k < 0 ? -k : k < n ? k : 2 * (n - 1) - k; }

/* Row y of the picture blurred downwards, as floats. */
static void blur_down(const mr_canvas_t *c, int y, const float *weight, int taps, float *out) {
  int n = c->w * c->C;
  memset(out, 0, (size_t)n * sizeof *out);
  for (int k = 0; k < taps; k++) {
    const uint8_t *from = c->at + (size_t)mirror_index(y + k - taps / 2, c->h) * (size_t)n;
    float w = weight[k];
    for (int x = 0; x < n; x++) out[x] += w * (float)from[x];
  }
}

/* out[n]: a row blurred across, rounded to the nearest level, halves to the even one.  row begins
   taps / 2 pixels before the picture's. */
static void blur_across(const float *row, int n, int C, const float *weight, int taps, float *sum,
                        uint8_t *out) {
  const float whole = 12582912.0f; /* 1.5 * 2^23, beside which a float has no fraction */
  memset(sum, 0, (size_t)n * sizeof *sum);
  for (int k = 0; k < taps; k++) {
    const float *from = row + k * C;
    float w = weight[k];
    for (int x = 0; x < n; x++) sum[x] += w * from[x];
  }
  for (int x = 0; x < n; x++) {
    float v = sum[x] + whole;
    int32_t bits;
    memcpy(&bits, &v, sizeof bits);
    int level = bits - 0x4B400000;
    out[x] = (uint8_t)(level > 255 ? 255 : level);
  }
}

static mr_err_t gaussian_blur_picture(mr_stage_t *s, float sigma) {
  const gaussian_blur_t *t = s->state;
  gaussian_blur_worker_t *w = s->scratch;
  mr_canvas_t *c = &w->canvas;
  int n = c->w * c->C, half = t->kw / 2, C = c->C;
  MR_TRY(mr_grow(&w->row, (size_t)(2 * n + 2 * half * C) * sizeof(float), s->diag));
  float *sum = (float *)w->row.at, *row = sum + n, *middle = row + half * C;
  gaussian_weights(t->kh, sigma, w->down);
  gaussian_weights(t->kw, sigma, w->across);
  for (int y = 0; y < c->h; y++) {
    blur_down(c, y, w->down, t->kh, middle);
    for (int k = 1; k <= half; k++) {
      memcpy(middle - k * C, middle + k * C, (size_t)C * sizeof *row);
      memcpy(middle + n + (k - 1) * C, middle + n - (k + 1) * C, (size_t)C * sizeof *row);
    }
    blur_across(row, n, C, w->across, t->kw, sum, c->spare + (size_t)y * (size_t)n);
  }
  mr_canvas_swap(c);
  return MR_OK;
}

static mr_err_t gaussian_blur_map(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) {
  const gaussian_blur_t *t = s->state;
  int f = t->in.field;
  float sigma = (float)t->sigma[0];
  if (t->sigma[0] < t->sigma[1]) {
    sigma = (float)mr_philox_uniform(in->rng, t->sigma[0], t->sigma[1]);
    mr_draw_note_float(out, 0, sigma);
  }
  MR_TRY(mr_canvas_open(s, &t->in, &in->field[f], out->field[f].data));
  MR_TRY(gaussian_blur_picture(s, sigma));
  mr_canvas_close(s, &t->in, out->field[f].data);
  return MR_OK;
}

static void gaussian_blur_draw_text(const mr_stage_t *s, uint64_t what, char *text, size_t n) {
  mr_draw_float_text("sigma", what, text, n);
}

static const mr_opt_t gaussian_blur_opts[] = {
    {.name = "kernel",
     .hint = "kernelsize ksize",
     .type = MR_OPT_STR,
     .offset = offsetof(gaussian_blur_t, kernel),
     .unit = "N|HxW",
     .def = "23",
     .positional = 1,
     .help = "Height and width of the kernel in pixels, odd."},
    {.name = "sigma",
     .type = MR_OPT_RANGE,
     .offset = offsetof(gaussian_blur_t, sigma),
     .unit = "pixels",
     .def = "0.1:2.0",
     .lo = 0.01,
     .hi = 1000,
     .help = "Standard deviation, drawn uniformly."},
    MR_PIXELS_OPT(gaussian_blur_t, field),
    {0}};

static const mr_hint_t gaussian_blur_words[] = {
    {"gaussblur randomgaussianblur", "gaussian-blur 23 sigma=0.1:2", NULL}, {0}};

const mr_stage_def_t mr_stage_gaussian_blur = {
    .name = "gaussian-blur",
    .hint = gaussian_blur_words,
    .help = "Blurs pictures with a Gaussian kernel of random width.",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = gaussian_blur_opts,
    .state_sz = sizeof(gaussian_blur_t),
    .plan = gaussian_blur_plan,
    .map = &(const mr_map_def_t){.run = gaussian_blur_map,
                                 .leave = gaussian_blur_leave,
                                 .draw_text = gaussian_blur_draw_text},
};
