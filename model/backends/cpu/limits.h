/* What this machine can do at most, measured by short probes of our own: a roofline. */
#ifndef MR_MODEL_CPU_LIMITS_H
#define MR_MODEL_CPU_LIMITS_H

#include "base/dtype.h"

/* Arithmetic: GFLOP/s of fused multiply-adds in registers, of `threads` threads together.  MR_F32,
   or MR_BF16 (dot products of pairs into f32; where the machine or MILLRACE_ISA has none, bf16
   goes through f32 and so has its limit).  Takes about 30 ms. */
double mr_limit_fma(mr_dtype_t dtype, int threads);

/* GB/s of copying far more than the caches hold, reads and writes counted both.  Takes about
   100 ms and 256 MB; 0 without memory. */
double mr_limit_copy(int threads);

#endif
