/* What the ways to multiply share. */
#ifndef MR_MODEL_CPU_MATMUL_PRIVATE_H
#define MR_MODEL_CPU_MATMUL_PRIVATE_H

#include "model/backends/cpu/kernels.h"

/* The product in plain C: any strides, no memory; the oracle, and what runs where oneDNN has no
   implementation.  Rows are shared among the OpenMP team. */
void mr__matmul_plain(const mr_matmul_spec_t *s, const void *a, const void *b, const void *bias,
                      void *out);

#endif
