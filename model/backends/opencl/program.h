/* Kernels compiled for a device.  A text is compiled once a device, together with the other new
   texts of its graph, since a driver's compiler takes longer to start than to compile one kernel.
   Equations with the same operands share the compiled kernel, each call has a kernel object of its
   own.  The kernel cache (kernels/cache.h) keeps programs for other processes. */
#ifndef MR_MODEL_BACKENDS_OPENCL_PROGRAM_H
#define MR_MODEL_BACKENDS_OPENCL_PROGRAM_H

#include "model/backends/opencl/device.h"

typedef struct mr_opencl_wanted {
  const char *text; /* kernels/kernel.h */
  cl_kernel *out;
} mr_opencl_wanted_t;

/* Sets *out of want[0,n) to a kernel of its text, which the caller releases by clReleaseKernel.
   MR_OK; MR_ERR_UNAVAILABLE with the compiler's first line if the device's compiler refuses a text,
   MR_ERR_NOMEM: those that are set are the caller's too.  Any thread; new texts take the compiler's
   time. */
mr_err_t mr__opencl_kernels(mr_opencl_device_t *d, const mr_opencl_wanted_t *want, size_t n,
                            mr_diag_t *diag);

/* Compiles one program of `kernels` texts, or takes it from the kernel cache; the caller owns it.
   Errors as above.  Any thread. */
mr_err_t mr__opencl_compile(mr_opencl_device_t *d, const char *text, size_t kernels,
                            cl_program *out, mr_diag_t *diag);

/* Releases all programs of d, whose kernels are released.  Cannot fail. */
void mr__opencl_programs_fini(mr_opencl_device_t *d);

/* ---- limits of the device, measured (limits.c), as mr_limit_ops_t: all of it, so
   threads is not read; 0 if it cannot be measured ---- */
double mr__opencl_fma(const mr_device_t *device, mr_dtype_t dtype, int threads);
double mr__opencl_bandwidth(const mr_device_t *device, int threads);

#endif
