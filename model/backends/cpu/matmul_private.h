/* What the ways to multiply share. */
#ifndef MR_MODEL_CPU_MATMUL_PRIVATE_H
#define MR_MODEL_CPU_MATMUL_PRIVATE_H

#include "model/backends/cpu/kernels.h"

/* The product in plain C: any strides, no memory; the oracle, and what runs where oneDNN has no
   implementation.  Rows are shared among the OpenMP team. */
void mr__matmul_plain(const mr_matmul_spec_t *s, const void *a, const void *b, const void *bias,
                      void *out);

/* Turns bf16 x[rows][cols], rows `stride` elements apart, to out[cols][ld]; 64-aligned, ld a
   multiple of 32, >= rows; what lies between becomes 0.  On the OpenMP team. */
bool mr__turn_works(void); /* here, on this machine */
void mr__turn(const mr_bf16_t *x, int64_t stride, int64_t rows, int64_t cols, mr_bf16_t *out,
              int64_t ld);

#endif
