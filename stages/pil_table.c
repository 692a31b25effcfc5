/* The weights of Pillow's bilinear passes as fixed-point numbers, made once for each pair of sizes.
   The formula, its order of operations and its rounding are Pillow's, since a weight that differs
   in its last bit would change pixels. */
#include <math.h>
#include <stdlib.h>

#include "base/isa.h"
#include "stages/pil_resize.h"

static int least_int(int a, int b) { return a < b ? a : b; }
static int greatest_int(int a, int b) { return a > b ? a : b; }

static double tap_weight(int at, double center, double fscale) {
  double a = fabs((at - center + 0.5) * (1.0 / fscale));
  return a < 1.0 ? 1.0 - a : 0.0;
}

/* Computes pixel x of a pass: its taps' weights into q, the first tap into *first; returns how
   many.  Weights are computed twice, once for their sum, which saves memory for them. */
static int pixel_weights(int in, int out, int x, int32_t *q, int *first) {
  double scale = (double)in / out, fscale = fmax(scale, 1.0), center = (x + 0.5) * scale, sum = 0;
  int lo = greatest_int((int)(center - fscale + 0.5), 0),
      hi = least_int((int)(center + fscale + 0.5), in);
  for (int k = 0; k < hi - lo; k++) sum += tap_weight(k + lo, center, fscale);
  for (int k = 0; k < hi - lo; k++) {
    double w = tap_weight(k + lo, center, fscale);
    if (sum != 0.0) w /= sum;
    q[k] = (int32_t)(0.5 + w * (1 << 22));
  }
  *first = lo;
  return hi - lo;
}

static int taps_of(int in, int out) { return 2 * greatest_int(in / out + 1, 1) + 1; }

static bool pass_alloc(mr_pil_pass_t *t, int in, int out) {
  t->taps = taps_of(in, out);
  t->first = calloc((size_t)out, sizeof *t->first);
  t->count = calloc((size_t)out, sizeof *t->count);
  t->q = calloc((size_t)out * (size_t)t->taps, sizeof *t->q);
  t->high = calloc(2 * (size_t)out, sizeof *t->high);
  t->low = calloc(2 * (size_t)out, sizeof *t->low);
  return t->first && t->count && t->q && t->high && t->low;
}

static void pass_weights(mr_pil_pass_t *t, int in, int out) {
  t->two = true;
  for (int x = 0; x < out; x++) {
    int32_t *q = &t->q[x * t->taps];
    int n = pixel_weights(in, out, x, q, &t->first[x]);
    while (n > 1 && q[n - 1] == 0) n--; /* a weight of 0 is not a tap */
    t->count[x] = n;
    t->two &= n <= 2;
  }
}

size_t mr__pil_pass_bytes(int in, int out) {
  size_t n = (size_t)out,
         bytes = n * (size_t)taps_of(in, out) * sizeof(int32_t) + 2 * n * sizeof(int);
  return (bytes + 7) / 8 * 8;
}

void mr__pil_pass_make(mr_pil_pass_t *t, int in, int out, void *memory) {
  int taps = taps_of(in, out);
  *t = (mr_pil_pass_t){.taps = taps, .first = memory};
  t->count = t->first + out, t->q = t->count + out;
  pass_weights(t, in, out);
}

/* The same weights in the form that 16-bit dot products and byte permutes need. */
static void pass_halves(mr_pil_pass_t *t, int out) {
  for (int x = 0; x < out; x++) {
    for (int k = 0; k < 2; k++) {
      int32_t q = k < t->count[x] ? t->q[x * t->taps + k] : 0;
      t->high[2 * x + k] = (int16_t)(q >> 11), t->low[2 * x + k] = (int16_t)(q & 2047);
    }
    if (out != 32) continue;
    int offset = t->first[x] - t->first[x & ~7];
    t->two &= offset < 15;
    t->pick[2 * x] = (uint8_t)offset, t->pick[2 * x + 1] = (uint8_t)(offset + 1);
  }
}

static bool pass_wide(mr_pil_pass_t *t) {
  mr_pil_wide_t *v = t->wide = calloc(1, sizeof *v);
  for (int i = 0; v && i < 64; i++) {
    int x = i / 2, k = i % 2;
    int32_t q = k < t->count[x] ? 4 * t->q[x * t->taps + k] : 0;
    v->high[i] = (int16_t)(q >> 12), v->low[i] = (int16_t)(q & 4095);
    v->pick[i / 32][2 * (i % 32)] = (uint8_t)(t->first[x] + k);
  }
  return v;
}

bool mr_pil_init(mr_pil_t *p, int max_in, int out, bool simd) {
  int most = mr__pil_tables(max_in, out);
  *p = (mr_pil_t){.max_in = max_in, .out = out};
  p->pass = calloc((size_t)most + 1, sizeof *p->pass);
  if (!p->pass) return false;
  for (int in = 1; in <= most; in++) {
    mr_pil_pass_t *t = &p->pass[in];
    if (!pass_alloc(t, in, out)) return false;
    pass_weights(t, in, out);
    if (t->two) pass_halves(t, out);
    if (t->two && out == 32 && !pass_wide(t)) return false;
    if (out >= 16 && in <= 8 * out && !mr__pil_any_init(t, out)) return false;
  }
  p->any2 = simd && mr_isa() >= MR_ISA_AVX2;
  p->any512 = simd && mr_isa() >= MR_ISA_AVX512 && mr__pil_has_avx512();
  p->avx2 = p->any2 && out == 32, p->avx512 = p->any512 && out == 32;
  return true;
}

void mr_pil_fini(mr_pil_t *p) {
  for (int in = 1; p->pass && in <= mr__pil_tables(p->max_in, p->out); in++) {
    mr_pil_pass_t *t = &p->pass[in];
    free(t->first), free(t->count), free(t->q), free(t->high), free(t->low);
    free(t->wide);
    mr__pil_any_free(t->any);
  }
  free(p->pass);
  *p = (mr_pil_t){0};
}
