/* Runs the row and element kernels on all threads.

   Rows and elements are divided into chunks whose borders depend on the sizes alone, and partial
   sums are added in the order of the chunks: results do not depend on the number of threads. */
#include "model/backends/cpu/rows.h"

#include <string.h>

enum { CHUNKS = 64, PIECE = 1 << 14, SUM_PIECE = 1 << 16 };

const mr__rows_t *mr__rows_of(mr_isa_t isa) {
#if defined(__x86_64__)
  if (isa == MR_ISA_AVX512_BF16) return &mr__rows_bf16;
  if (isa == MR_ISA_AVX512) return &mr__rows_avx512;
  if (isa == MR_ISA_AVX2) return &mr__rows_avx2;
#endif
  return isa == MR_ISA_PLAIN ? &mr__rows_plain : NULL;
}

const mr__rows_t *mr__rows(void) { return mr__rows_of(mr_isa()); }

/* ---- rows ---- */

static int64_t chunk_rows(int64_t rows) { return (rows + CHUNKS - 1) / CHUNKS; }
static int64_t chunks_of(int64_t rows) {
  int64_t per = chunk_rows(rows);
  return per ? (rows + per - 1) / per : 0;
}
static int64_t rows_least(int64_t a, int64_t b) { return a < b ? a : b; }

void mr_layer_norm_fwd(mr_dtype_t xt, const void *x, const float *scale, const float *bias,
                       float eps, bool two_pass, mr_dtype_t yt, void *y, float *mean, float *rstd,
                       int64_t rows, int64_t c) {
  const mr__rows_t *k = mr__rows();
  int64_t per = chunk_rows(rows), chunks = chunks_of(rows);
#pragma omp parallel for schedule(static) if (rows * c > PIECE)
  for (int64_t i = 0; i < chunks; i++)
    k->layer_norm_fwd(xt, x, scale, bias, eps, two_pass, yt, y, mean, rstd, i * per,
                      rows_least((i + 1) * per, rows), c);
}

size_t mr_layer_norm_scratch(int64_t rows, int64_t c) {
  return (size_t)(chunks_of(rows) * 2 * c) * sizeof(float);
}

/* out[j] = sum over chunks of partial[chunk * stride + j] */
static void add_partials(const float *partial, int64_t chunks, int64_t stride, float *out,
                         int64_t c) {
  memset(out, 0, (size_t)c * sizeof *out);
  for (int64_t k = 0; k < chunks; k++)
    for (int64_t j = 0; j < c; j++) out[j] += partial[k * stride + j];
}

void mr_layer_norm_bwd(mr_dtype_t xt, const void *x, const float *scale, const float *mean,
                       const float *rstd, mr_dtype_t dyt, const void *dy, void *dx, float *dscale,
                       float *dbias, void *scratch, int64_t rows, int64_t c) {
  const mr__rows_t *k = mr__rows();
  int64_t per = chunk_rows(rows), chunks = chunks_of(rows);
  float *partial = scratch;
#pragma omp parallel for schedule(static) if (rows * c > PIECE)
  for (int64_t i = 0; i < chunks; i++)
    k->layer_norm_bwd(xt, x, scale, mean, rstd, dyt, dy, dx, partial + i * 2 * c,
                      partial + i * 2 * c + c, i * per, rows_least((i + 1) * per, rows), c);
  add_partials(partial, chunks, 2 * c, dscale, c);
  add_partials(partial + c, chunks, 2 * c, dbias, c);
}

/* ---- elements ---- */

/* Runs call for each piece [i0,i1) of [0,n); k, i0 and i1 are in its scope. */
#define OVER_PIECES(call)                                                                  \
  const mr__rows_t *k = mr__rows();                                                        \
  _Pragma("omp parallel for schedule(static) if (n > PIECE)") for (int64_t i0 = 0; i0 < n; \
                                                                   i0 += PIECE) {          \
    int64_t i1 = rows_least(i0 + PIECE, n);                                                \
    call;                                                                                  \
  }

void mr_gelu_fwd(mr_gelu_t kind, mr_dtype_t t, const void *x, void *y, int64_t n) {
  OVER_PIECES(k->gelu_fwd(kind, t, x, y, i0, i1))
}

void mr_gelu_bwd(mr_gelu_t kind, mr_dtype_t t, const void *x, const void *dy, void *dx, int64_t n) {
  OVER_PIECES(k->gelu_bwd(kind, t, x, dy, dx, i0, i1))
}

void mr_dropout(mr_dtype_t t, const void *x, void *y, int64_t n, float rate, uint64_t seed,
                uint32_t site, uint32_t step, int64_t first) {
  size_t size = mr_dtype_size(t);
  OVER_PIECES(k->dropout(t, (const char *)x + size * (size_t)i0, (char *)y + size * (size_t)i0,
                         first + i0, i1 - i0, rate, seed, site, step))
}

void mr_dropout_rows(mr_dtype_t t, const void *x, void *y, int64_t rows, int64_t n, int64_t pitch,
                     float rate, uint64_t seed, uint32_t site, uint32_t step, int64_t first) {
  const mr__rows_t *k = mr__rows();
  size_t size = mr_dtype_size(t) * (size_t)n;
  if (rows == 1 || n == pitch) { /* one piece, which all threads share */
    mr_dropout(t, x, y, rows * n, rate, seed, site, step, first);
    return;
  }
#pragma omp parallel for schedule(static) if (rows * n > PIECE)
  for (int64_t r = 0; r < rows; r++)
    k->dropout(t, (const char *)x + size * (size_t)r, (char *)y + size * (size_t)r,
               first + r * pitch, n, rate, seed, site, step);
}

void mr_stochastic_round(mr_dtype_t t, const float *x, void *y, int64_t n, uint64_t seed,
                         uint32_t site, uint32_t step) {
  OVER_PIECES(k->stochastic_round(t, x + i0, (uint16_t *)y + i0, i0, i1 - i0, seed, site, step))
}

void mr_convert(mr_dtype_t from, const void *x, mr_dtype_t to, void *y, int64_t n) {
  OVER_PIECES(k->convert(from, x, to, y, i0, i1))
}

void mr_adamw(const mr_adamw_step_t *s, const float *p, const float *g, const float *m,
              const float *v, float *p_out, float *m_out, float *v_out, int64_t n) {
  OVER_PIECES(k->adamw(s, p, g, m, v, p_out, m_out, v_out, i0, i1))
}

double mr_sum_squares(const float *x, int64_t n) {
  const mr__rows_t *k = mr__rows();
  double partial[CHUNKS], sum = 0;
  int64_t per = (n + CHUNKS - 1) / CHUNKS;
  per = per < SUM_PIECE ? SUM_PIECE : per;
  int64_t chunks = (n + per - 1) / per;
#pragma omp parallel for schedule(static) if (n > SUM_PIECE)
  for (int64_t i = 0; i < chunks; i++)
    partial[i] = k->sum_squares(x, i * per, rows_least((i + 1) * per, n));
  for (int64_t i = 0; i < chunks; i++) sum += partial[i];
  return sum;
}

/* The table for plain C. */
#define ROWS mr__rows_plain
#include "model/backends/cpu/rows_body.inc"
