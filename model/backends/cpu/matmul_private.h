/* Shared by the ways to multiply: matmul_ways.c has them, matmul_pack.c prepares their operands,
   matmul.c chooses. */
#ifndef MR_MODEL_CPU_MATMUL_PRIVATE_H
#define MR_MODEL_CPU_MATMUL_PRIVATE_H

#include "model/backends/cpu/kernels.h"

/* The product in plain C: any strides, no work memory.  It is the oracle, and runs if there is no
   memory.  The OpenMP team shares the rows. */
void mr__matmul_plain(const mr_matmul_spec_t *s, const void *a, const void *b, const void *bias,
                      void *out);

/* Transposes bf16 x[rows][cols], rows `stride` elements apart, to out[cols][ld], 64-aligned; ld
   is a multiple of 32, >= rows; elements [rows,ld) become 0.  On the OpenMP team. */
bool mr__turn_works(void); /* whether it is fast on this machine */
void mr__turn(const mr_bf16_t *x, int64_t stride, int64_t rows, int64_t cols, mr_bf16_t *out,
              int64_t ld);

/* Packs bf16 b[k][n] of s to out[n/64][k/32][16][64][2], 64-aligned, with k padded to a multiple
   of 32 by zeros; reads the sizes and b's rows and dtype from s.  On the OpenMP team. */
bool mr__pairs_work(const mr_matmul_spec_t *s); /* whether it works here, for these sizes */
void mr__pairs_pack(const mr_matmul_spec_t *s, const mr_bf16_t *b, mr_bf16_t *out);

/* A bf16 or f16 product through f32: operands are copied to dense f32, each in its own order, and
   a narrow result is rounded from an f32 one.  `f32` is the product of mr__wide_spec(s); work:
   mr__wide_bytes(s), 64-aligned, contents undefined.  On the OpenMP team. */
mr_matmul_spec_t mr__wide_spec(const mr_matmul_spec_t *s);
size_t mr__wide_bytes(const mr_matmul_spec_t *s);
void mr__wide_run(const mr_matmul_spec_t *s, mr_matmul_t *f32, const void *a, const void *b,
                  const void *bias, void *out, void *work);

/* An f32 product through bf16: operands are copied and rounded (DEFAULT), or split into an upper
   and a lower bf16 each (HIGH).  The parts are concatenated along k, so that one sum holds
   upper*upper, upper*lower and lower*upper; the omitted lower*lower is below 2^-16 of a term.
   `bf16` is the product of mr__narrow_spec(s); work: mr__narrow_bytes(s), 64-aligned, contents
   undefined.  On the OpenMP team. */
bool mr__narrows(const mr_matmul_spec_t *s); /* whether its precision asks for it */
mr_matmul_spec_t mr__narrow_spec(const mr_matmul_spec_t *s);
size_t mr__narrow_bytes(const mr_matmul_spec_t *s);
void mr__narrow_run(const mr_matmul_spec_t *s, mr_matmul_t *bf16, const float *a, const float *b,
                    const void *bias, void *out, void *work);

#endif
