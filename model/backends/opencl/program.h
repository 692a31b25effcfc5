/* Kernels compiled for the device.  A text is compiled once a process: equations with the same
   operands share the program, each call has a kernel object of its own. */
#ifndef MR_MODEL_BACKENDS_OPENCL_PROGRAM_H
#define MR_MODEL_BACKENDS_OPENCL_PROGRAM_H

#include "model/backends/opencl/device.h"

/* Sets *out to a kernel of text (kernels/kernel.h), which the caller releases by clReleaseKernel.
   MR_OK; MR_ERR_UNAVAILABLE with the compiler's first line if the device's compiler refuses the
   text, MR_ERR_NOMEM.  Any thread; a text that is new takes the compiler's time. */
mr_err_t mr__opencl_kernel(const mr_opencl_device_t *d, const char *text, cl_kernel *out,
                           mr_diag_t *diag);

#endif
