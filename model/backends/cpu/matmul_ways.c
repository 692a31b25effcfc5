/* The ways to multiply besides oneDNN's product of the operands as they are (matmul_private.h): in
   plain C, the oracle; bf16 and f16 through f32, which copies operands to dense f32 and rounds the
   result; and f32 through bf16, which copies operands as one or three bf16 parts. */
#include <math.h>

#include "model/backends/cpu/half.h"
#include "model/backends/cpu/matmul_private.h"
#include "model/backends/cpu/rows.h"

/* ---- plain C ---- */

static float plain_dot(const mr_matmul_spec_t *s, const void *a, int64_t at_a, const void *b,
                       int64_t at_b) {
  float sum = 0;
  for (int64_t k = 0; k < s->k; k++)
    sum += element_get(s->a, a, at_a + k * s->a_col) * element_get(s->b, b, at_b + k * s->b_row);
  return sum;
}

void mr__matmul_plain(const mr_matmul_spec_t *s, const void *a, const void *b, const void *bias,
                      void *out) {
#pragma omp parallel for
  for (int64_t row = 0; row < s->batch * s->m; row++) {
    int64_t z = row / s->m, i = row % s->m;
    for (int64_t j = 0; j < s->n; j++) {
      float v = plain_dot(s, a, z * s->a_batch + i * s->a_row, b, z * s->b_batch + j * s->b_col);
      if (s->bias) v += element_get(s->bias_dtype, bias, j);
      element_put(s->out, out, z * s->out_batch + i * s->out_row + j, v);
    }
  }
}

/* ---- operands as lines ---- */

/* An operand as lines of adjacent elements; k runs along a line or from line to line. */
typedef struct lines {
  int64_t batch, batch_stride, count, stride, length;
  bool along;
} lines_t;

static lines_t lines_of_a(const mr_matmul_spec_t *s) {
  return s->a_col == 1 ? (lines_t){s->batch, s->a_batch, s->m, s->a_row, s->k, true}
                       : (lines_t){s->batch, s->a_batch, s->k, s->a_col, s->m, false};
}

static lines_t lines_of_b(const mr_matmul_spec_t *s) {
  return s->b_col == 1 ? (lines_t){s->batch, s->b_batch, s->k, s->b_row, s->n, false}
                       : (lines_t){s->batch, s->b_batch, s->n, s->b_col, s->k, true};
}

static lines_t lines_of_out(const mr_matmul_spec_t *s) {
  return (lines_t){s->batch, s->out_batch, s->m, s->out_row, s->n, false};
}

/* ---- bf16 and f16 through f32 ---- */

static int64_t round_up_16(int64_t n) { return (n + 15) & ~(int64_t)15; } /* 64 bytes of f32 */

static int64_t lines_elems(const lines_t *l) { return l->batch * l->count * l->length; }

mr_matmul_spec_t mr__wide_spec(const mr_matmul_spec_t *s) {
  mr_matmul_spec_t w = *s;
  w.a = w.b = w.out = w.bias_dtype = MR_F32;
  w.a_batch = s->m * s->k, w.b_batch = s->k * s->n;
  if (s->a_col == 1)
    w.a_row = s->k;
  else
    w.a_col = s->m;
  if (s->b_col == 1)
    w.b_row = s->n;
  else
    w.b_col = s->k;
  w.precision = MR_PRECISION_HIGHEST;
  if (s->out != MR_F32) w.out_row = s->n, w.out_batch = s->m * s->n;
  return w;
}

size_t mr__wide_bytes(const mr_matmul_spec_t *s) {
  lines_t a = lines_of_a(s), b = lines_of_b(s), out = lines_of_out(s);
  int64_t n = round_up_16(lines_elems(&a)) + round_up_16(lines_elems(&b)) + round_up_16(s->n);
  return (size_t)(n + (s->out != MR_F32 ? lines_elems(&out) : 0)) * sizeof(float);
}

static void widen_lines(const lines_t *l, mr_dtype_t t, const uint16_t *x, float *dense) {
  const mr__rows_t *k = mr__rows();
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < l->batch * l->count; i++)
    k->convert(t, x + i / l->count * l->batch_stride + i % l->count * l->stride, MR_F32,
               dense + i * l->length, 0, l->length);
}

static void narrow_lines(const lines_t *l, const float *dense, mr_dtype_t t, uint16_t *x) {
  const mr__rows_t *k = mr__rows();
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < l->batch * l->count; i++)
    k->convert(MR_F32, dense + i * l->length, t,
               x + i / l->count * l->batch_stride + i % l->count * l->stride, 0, l->length);
}

void mr__wide_run(const mr_matmul_spec_t *s, mr_matmul_t *f32, const void *a, const void *b,
                  const void *bias, void *out, void *work) {
  lines_t la = lines_of_a(s), lb = lines_of_b(s), lo = lines_of_out(s);
  float *wa = work, *wb = wa + round_up_16(lines_elems(&la)),
        *wbias = wb + round_up_16(lines_elems(&lb));
  float *wout = s->out != MR_F32 ? wbias + round_up_16(s->n) : out;
  widen_lines(&la, s->a, a, wa);
  widen_lines(&lb, s->b, b, wb);
  if (s->bias) mr__rows()->convert(s->bias_dtype, bias, MR_F32, wbias, 0, s->n);
  mr_matmul_run(f32, wa, wb, s->bias ? wbias : NULL, wout);
  if (s->out != MR_F32) narrow_lines(&lo, wout, s->out, out);
}

/* ---- f32 through bf16 ---- */

static int64_t round_up_32(int64_t n) { return (n + 31) & ~(int64_t)31; } /* 64 bytes of bf16 */

bool mr__narrows(const mr_matmul_spec_t *s) {
  return s->a == MR_F32 &&
         (s->precision == MR_PRECISION_DEFAULT || s->precision == MR_PRECISION_HIGH);
}

static int64_t precision_passes(const mr_matmul_spec_t *s) {
  return s->precision == MR_PRECISION_HIGH ? 3 : 1;
}

mr_matmul_spec_t mr__narrow_spec(const mr_matmul_spec_t *s) {
  mr_matmul_spec_t w = *s;
  int64_t k = w.k = s->k * precision_passes(s);
  w.a = w.b = MR_BF16;
  w.precision = MR_PRECISION_NONE;
  w.a_batch = s->m * k, w.b_batch = k * s->n;
  if (s->a_col == 1)
    w.a_row = k;
  else
    w.a_col = s->m;
  if (s->b_col == 1)
    w.b_row = s->n;
  else
    w.b_col = k;
  return w;
}

size_t mr__narrow_bytes(const mr_matmul_spec_t *s) {
  int64_t n = round_up_32(precision_passes(s) * s->batch * s->m * s->k) +
              precision_passes(s) * s->batch * s->k * s->n;
  return (size_t)n * sizeof(mr_bf16_t);
}

/* The content of a copy.  UPPER: x rounded.  FINITE: the same, but 0 if x is not finite, whose
   product with a rest of 0 would be NaN.  LOWER: the rest after rounding, 0 if x is not
   finite. */
typedef enum part { UPPER, FINITE, LOWER } part_t;

static mr_bf16_t part_of(float x, part_t part) {
  mr_bf16_t upper = mr_bf16_from_f32(x);
  if (part == UPPER) return upper;
  float rounded = mr_bf16_to_f32(upper);
  if (!isfinite(rounded)) return 0;
  return part == FINITE ? upper : mr_bf16_from_f32(x - rounded);
}

/* Writes the parts of x, one after the other along k. */
static void matmul_write_parts(const lines_t *l, const float *x, int64_t n_part, const part_t *part,
                               mr_bf16_t *to) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < l->batch * l->count; i++) {
    int64_t z = i / l->count, line = i % l->count;
    const float *from = x + z * l->batch_stride + line * l->stride;
    for (int64_t p = 0; p < n_part; p++) {
      int64_t at = l->along ? line * n_part + p : p * l->count + line;
      mr_bf16_t *y = to + (z * n_part * l->count + at) * l->length;
      for (int64_t j = 0; j < l->length; j++) y[j] = part_of(from[j], part[p]);
    }
  }
}

void mr__narrow_run(const mr_matmul_spec_t *s, mr_matmul_t *bf16, const float *a, const float *b,
                    const void *bias, void *out, void *work) {
  static const part_t of_a[] = {UPPER, FINITE, LOWER}, of_b[] = {UPPER, LOWER, FINITE};
  lines_t la = lines_of_a(s), lb = lines_of_b(s);
  mr_bf16_t *na = work, *nb = na + round_up_32(precision_passes(s) * s->batch * s->m * s->k);
  matmul_write_parts(&la, a, precision_passes(s), of_a, na);
  matmul_write_parts(&lb, b, precision_passes(s), of_b, nb);
  mr_matmul_run(bf16, na, nb, bias, out);
}
