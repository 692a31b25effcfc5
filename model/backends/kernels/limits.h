/* Measures what a device can do at most: fused multiply-adds in registers, and copies within its
   memory. */
#ifndef MR_MODEL_BACKENDS_KERNELS_LIMITS_H
#define MR_MODEL_BACKENDS_KERNELS_LIMITS_H

#include "model/exec/backend.h"

/* The text of a kernel (kernel.h) that keeps 16 sums in registers and stores one float an item into
   its only operand.  Generated products of bf16 are computed in f32 too: it is the limit of both
   where no library computes them. */
extern const char mr__kernel_fma_text[];

/* GFLOP/s of that kernel over `items` items, the best of a few runs, timed by d's clock if it
   has one: give(arg) gives it, false if it cannot.  0: a run failed.
   Blocks; any thread. */
double mr__kernel_fma(const mr_device_t *d, size_t items, bool (*give)(void *arg), void *arg);

/* GB/s of copies of `bytes` bytes within the memory of d, reads and writes, timed likewise; of a
   quarter of what the process may have there, where that is less.  0 without memory, or if the
   device fails.  Blocks; any thread. */
double mr__kernel_bandwidth(const mr_device_t *d, size_t bytes);

#endif
