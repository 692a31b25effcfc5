/* Kernels compiled for a device by NVRTC.  A text is compiled once a device, together with other
   new texts of its graph; several threads compile at once.  The kernel cache (kernels/cache.h)
   keeps programs for other processes. */
#ifndef MR_MODEL_BACKENDS_CUDA_PROGRAM_H
#define MR_MODEL_BACKENDS_CUDA_PROGRAM_H

#include "model/backends/cuda/device.h"
#include "model/backends/cuda/nvrtc.h"
#include "model/backends/kernels/cache.h"

enum {
  MR_CUDA_ARGUMENTS = 1024, /* of a kernel, pointers: 8 KiB of the 32,764 bytes of CUDA 12.1 */
  MR_CUDA_GROUP = 256,      /* work-items of a block, for kernels that ask for no other number */
  MR_CUDA_TOGETHER = 32     /* texts that are compiled as one program */
};

typedef struct mr_cuda_wanted {
  const char *text; /* kernels/kernel.h */
  cudaKernel_t *out;
} mr_cuda_wanted_t;

/* Sets *out of want[0,n) to the kernel of its text, which lives as long as d.  MR_OK;
   MR_ERR_UNAVAILABLE    with the compiler's first line if it refuses a text, or without NVRTC;
   MR_ERR_NOMEM.  Any thread; new texts take the compiler's time. */
mr_err_t mr__cuda_kernels(mr_cuda_device_t *d, const mr_cuda_wanted_t *want, size_t n,
                          mr_diag_t *diag);

/* What a kernel takes of a multiprocessor. */
typedef struct mr_cuda_usage {
  int registers; /* of a thread; -1: unknown, as of PTX */
  int stack;     /* bytes of local memory of a thread; -1: unknown */
} mr_cuda_usage_t;

/* Compiles the texts of want[0,n) for the device's architecture, or takes them from the kernel
   cache, and writes what each takes to usage[0,n); loads nothing, and leaves want's `out`.  Fails
   as mr__cuda_kernels.  Any thread; takes the compiler's time. */
mr_err_t mr__cuda_kernels_usage(mr_cuda_device_t *d, const mr_cuda_wanted_t *want, size_t n,
                                mr_cuda_usage_t *usage, mr_diag_t *diag);

/* The text of one program for text[0,n), whose functions become k0, k1, ...: the dialect's words
   for CUDA C++, the prelude, the kernels.  The caller frees it; NULL without memory. */
char *mr__cuda_program_text(const char *const *text, size_t n);

/* What a program was compiled to. */
typedef struct mr_cuda_image {
  void *data; /* a cubin, or PTX; the owner frees it */
  size_t bytes;
} mr_cuda_image_t;

/* Compiles a program's text for an architecture as NVRTC spells it, "sm_90a", or "compute_80" for
   PTX.  MR_OK: the caller frees out->data; *log, if log is not NULL, is the compiler's output,
   which the caller frees.  MR_ERR_UNAVAILABLE with its first line, MR_ERR_NOMEM.  Any thread. */
mr_err_t mr__cuda_compile(const mr_nvrtc_t *nvrtc, const char *text, const char *arch,
                          mr_cuda_image_t *out, char **log, mr_diag_t *diag);

/* Returns the program's entry in the kernel cache. */
mr_kernel_entry_t mr__cuda_entry(const mr_nvrtc_t *nvrtc, const char *text, const char *arch);

/* Starts a kernel of `items` work-items on the thread's stream, in groups of exactly `group` items
   each, which divides items (mr_kernel_t; 0: of any size): arg[n] are pointers into the device's
   memory.  Returns CUDA's status, or cudaErrorInvalidConfiguration for too many groups. */
cudaError_t mr__cuda_launch(mr_cuda_device_t *d, cudaKernel_t kernel, int64_t items, int group,
                            void **arg, int n);

/* Unloads all kernels of d, none of which runs.  Cannot fail. */
void mr__cuda_programs_fini(mr_cuda_device_t *d);

/* ---- limits of the device, measured (limits.c), as mr_limit_ops_t: all of it, so
   threads is not read; 0 if it cannot be measured.  fma in bf16 is a product of
   8192 x 8192 matrices by cuBLASLt, where it is there ---- */
double mr__cuda_fma(const mr_device_t *device, mr_dtype_t dtype, int threads);
double mr__cuda_bandwidth(const mr_device_t *device, int threads);

#endif
