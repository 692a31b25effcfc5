/* The row and element kernels of one instruction set: single-threaded, over a range [r0,r1) of
   rows or [i0,i1) of elements.  Arguments are those of kernels.h.  The kernels are in
   rows_body.inc, which is compiled once for each instruction set; rows.c runs them on all
   threads. */
#ifndef MR_MODEL_CPU_ROWS_H
#define MR_MODEL_CPU_ROWS_H

#include "base/isa.h"
#include "model/backends/cpu/kernels.h"

typedef struct mr__rows {
  void (*layer_norm_fwd)(mr_dtype_t xt, const void *x, const float *scale, const float *bias,
                         float eps, bool two_pass, mr_dtype_t yt, void *y, float *mean, float *rstd,
                         int64_t r0, int64_t r1, int64_t c);
  /* dscale, dbias: [c] sums of these rows, overwritten */
  void (*layer_norm_bwd)(mr_dtype_t xt, const void *x, const float *scale, const float *mean,
                         const float *rstd, mr_dtype_t dyt, const void *dy, void *dx, float *dscale,
                         float *dbias, int64_t r0, int64_t r1, int64_t c);
  void (*gelu_fwd)(mr_gelu_t kind, mr_dtype_t t, const void *x, void *y, int64_t i0, int64_t i1);
  void (*gelu_bwd)(mr_gelu_t kind, mr_dtype_t t, const void *x, const void *dy, void *dx,
                   int64_t i0, int64_t i1);
  /* x[n], y[n]: elements [from,from+n) of the whole tensor */
  void (*dropout)(mr_dtype_t t, const void *x, void *y, int64_t from, int64_t n, float rate,
                  uint64_t seed, uint32_t site, uint32_t step);
  /* the same elements; t: MR_BF16 or MR_F16, of y */
  void (*stochastic_round)(mr_dtype_t t, const float *x, void *y, int64_t from, int64_t n,
                           uint64_t seed, uint32_t site, uint32_t step);
  /* between narrow floats; and between f8 (base/dtype.h) and f32 */
  void (*convert)(mr_dtype_t from, const void *x, mr_dtype_t to, void *y, int64_t i0, int64_t i1);
  void (*adamw)(const mr_adamw_step_t *s, const float *p, const float *g, const float *m,
                const float *v, float *p_out, float *m_out, float *v_out, int64_t i0, int64_t i1);
  double (*sum_squares)(const float *x, int64_t i0, int64_t i1);
} mr__rows_t;

extern const mr__rows_t mr__rows_plain, mr__rows_avx2, mr__rows_avx512, mr__rows_bf16;

/* Return the kernels of an instruction set (NULL: not in this build), and those of mr_isa(),
   never NULL.  Both are static. */
const mr__rows_t *mr__rows_of(mr_isa_t isa);
const mr__rows_t *mr__rows(void);

#endif
