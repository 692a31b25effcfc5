/* The limits of this machine for a roofline, measured by short probes. */
#ifndef MR_MODEL_CPU_LIMITS_H
#define MR_MODEL_CPU_LIMITS_H

#include "base/dtype.h"

/* Returns GFLOP/s of fused multiply-adds in registers, of `threads` threads together.  MR_F32, or
   MR_BF16: dot products of pairs into f32, or the limit of f32 if the machine or MILLRACE_ISA has
   none, as bf16 is then computed in f32.  Blocks for about 30 ms. */
double mr_limit_fma(mr_dtype_t dtype, int threads);

/* Returns GB/s of copying far more than the caches hold, counting reads and writes; 0 without
   memory.  Blocks for about 100 ms and takes 256 MB. */
double mr_limit_copy(int threads);

#endif
