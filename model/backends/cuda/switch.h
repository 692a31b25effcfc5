/* What a user switches off to find the part of the backend that a fault is in: a library, the
   recording of runs, the driver's memory pool (docs/devices.md). */
#ifndef MR_MODEL_BACKENDS_CUDA_SWITCH_H
#define MR_MODEL_BACKENDS_CUDA_SWITCH_H

#include <stdbool.h>

typedef enum mr_cuda_switch {
  MR_CUDA_SWITCH_CUBLASLT, /* MILLRACE_CUBLASLT: generated kernels compute products */
  MR_CUDA_SWITCH_CUDNN,    /* MILLRACE_CUDNN: attention is computed without it */
  MR_CUDA_SWITCH_GRAPH,    /* MILLRACE_GRAPH: the host starts each kernel */
  MR_CUDA_SWITCH_POOL,     /* MILLRACE_CUDA_POOL: blocks are taken by cudaMalloc */
  MR_CUDA_SWITCHES
} mr_cuda_switch_t;

/* Whether the variable is "off".  Unset, empty or "on" is not; another word is not either, with a
   notice, once.  Reads the environment at each call, so that tests can compile in several ways in
   one process.  Any thread. */
bool mr__cuda_is_off(mr_cuda_switch_t s);

#endif
