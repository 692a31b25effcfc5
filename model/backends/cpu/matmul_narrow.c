/* An f32 product through bf16 (matmul_private.h): copies operands as one or three bf16 parts and
   multiplies those. */
#include <math.h>

#include "model/backends/cpu/matmul_private.h"

static int64_t round32(int64_t n) { return (n + 31) & ~(int64_t)31; } /* 64 bytes of bf16 */

/* An operand as lines of adjacent elements; k runs along a line or from line to line. */
typedef struct lines {
  int64_t batch, batch_stride, count, stride, length;
  bool along;
} lines_t;

static lines_t matmul_narrow_lines_of_a(const mr_matmul_spec_t *s) {
  return s->a_col == 1 ? (lines_t){s->batch, s->a_batch, s->m, s->a_row, s->k, true}
                       : (lines_t){s->batch, s->a_batch, s->k, s->a_col, s->m, false};
}

static lines_t matmul_narrow_lines_of_b(const mr_matmul_spec_t *s) {
  return s->b_col == 1 ? (lines_t){s->batch, s->b_batch, s->k, s->b_row, s->n, false}
                       : (lines_t){s->batch, s->b_batch, s->n, s->b_col, s->k, true};
}

bool mr__narrows(const mr_matmul_spec_t *s) {
  return s->a == MR_F32 &&
         (s->precision == MR_PRECISION_DEFAULT || s->precision == MR_PRECISION_HIGH);
}

static int64_t passes(const mr_matmul_spec_t *s) {
  return s->precision == MR_PRECISION_HIGH ? 3 : 1;
}

mr_matmul_spec_t mr__narrow_spec(const mr_matmul_spec_t *s) {
  mr_matmul_spec_t w = *s;
  int64_t k = w.k = s->k * passes(s);
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
  int64_t n = round32(passes(s) * s->batch * s->m * s->k) + passes(s) * s->batch * s->k * s->n;
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
static void matmul_narrow_cut(const lines_t *l, const float *x, int64_t n_part, const part_t *part,
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
  lines_t la = matmul_narrow_lines_of_a(s), lb = matmul_narrow_lines_of_b(s);
  mr_bf16_t *na = work, *nb = na + round32(passes(s) * s->batch * s->m * s->k);
  matmul_narrow_cut(&la, a, passes(s), of_a, na);
  matmul_narrow_cut(&lb, b, passes(s), of_b, nb);
  mr_matmul_run(bf16, na, nb, bias, out);
}
