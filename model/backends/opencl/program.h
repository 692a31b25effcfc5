/* Kernels compiled for the device.  A text is compiled once a process, together with the other new
   texts of its graph, since a driver's compiler takes longer to start than to compile one kernel.
   Equations with the same operands share the compiled kernel, each call has a kernel object of its
   own. */
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
mr_err_t mr__opencl_kernels(const mr_opencl_device_t *d, const mr_opencl_wanted_t *want, size_t n,
                            mr_diag_t *diag);

#endif
