/* A bf16 product through f32 (matmul_private.h): copies operands to dense f32, multiplies, and
   rounds the result. */
#include "model/backends/cpu/matmul_private.h"
#include "model/backends/cpu/rows.h"

static int64_t matmul_wide_round16(int64_t n) {
  return (n + 15) & ~(int64_t)15;
} /* 64 bytes of f32 */

/* An operand as lines of adjacent elements. */
typedef struct lines {
  int64_t batch, batch_stride, count, stride, length;
} lines_t;

static lines_t matmul_wide_lines_of_a(const mr_matmul_spec_t *s) {
  return s->a_col == 1 ? (lines_t){s->batch, s->a_batch, s->m, s->a_row, s->k}
                       : (lines_t){s->batch, s->a_batch, s->k, s->a_col, s->m};
}

static lines_t matmul_wide_lines_of_b(const mr_matmul_spec_t *s) {
  return s->b_col == 1 ? (lines_t){s->batch, s->b_batch, s->k, s->b_row, s->n}
                       : (lines_t){s->batch, s->b_batch, s->n, s->b_col, s->k};
}

static lines_t lines_of_out(const mr_matmul_spec_t *s) {
  return (lines_t){s->batch, s->out_batch, s->m, s->out_row, s->n};
}

static int64_t matmul_wide_elems(const lines_t *l) { return l->batch * l->count * l->length; }

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
  lines_t a = matmul_wide_lines_of_a(s), b = matmul_wide_lines_of_b(s), out = lines_of_out(s);
  int64_t n = matmul_wide_round16(matmul_wide_elems(&a)) +
              matmul_wide_round16(matmul_wide_elems(&b)) + matmul_wide_round16(s->n);
  return (size_t)(n + (s->out != MR_F32 ? matmul_wide_elems(&out) : 0)) * sizeof(float);
}

static void matmul_wide_widen(const lines_t *l, mr_dtype_t t, const uint16_t *x, float *dense) {
  const mr__rows_t *k = mr__rows();
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < l->batch * l->count; i++)
    k->convert(t, x + i / l->count * l->batch_stride + i % l->count * l->stride, MR_F32,
               dense + i * l->length, 0, l->length);
}

static void matmul_wide_narrow(const lines_t *l, const float *dense, mr_dtype_t t, uint16_t *x) {
  const mr__rows_t *k = mr__rows();
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < l->batch * l->count; i++)
    k->convert(MR_F32, dense + i * l->length, t,
               x + i / l->count * l->batch_stride + i % l->count * l->stride, 0, l->length);
}

void mr__wide_run(const mr_matmul_spec_t *s, mr_matmul_t *f32, const void *a, const void *b,
                  const void *bias, void *out, void *work) {
  lines_t la = matmul_wide_lines_of_a(s), lb = matmul_wide_lines_of_b(s), lo = lines_of_out(s);
  float *wa = work, *wb = wa + matmul_wide_round16(matmul_wide_elems(&la)),
        *wbias = wb + matmul_wide_round16(matmul_wide_elems(&lb));
  float *wout = s->out != MR_F32 ? wbias + matmul_wide_round16(s->n) : out;
  matmul_wide_widen(&la, s->a, a, wa);
  matmul_wide_widen(&lb, s->b, b, wb);
  if (s->bias) mr__rows()->convert(s->bias_dtype, bias, MR_F32, wbias, 0, s->n);
  mr_matmul_run(f32, wa, wb, s->bias ? wbias : NULL, wout);
  if (s->out != MR_F32) matmul_wide_narrow(&lo, wout, s->out, out);
}
