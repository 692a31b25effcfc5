/* Equations that NVIDIA's libraries compute better than generated kernels: products by cuBLASLt,
   attention by cuDNN. */
#ifndef MR_MODEL_BACKENDS_CUDA_LIBRARY_H
#define MR_MODEL_BACKENDS_CUDA_LIBRARY_H

#include <stdbool.h>

#include "model/backends/cuda/program.h"
#include "model/exec/call.h"

/* As mr_compile_ops_t.lower: MR_OK if a library takes c->eqn, MR_ERR_NORULE without a sentence if a
   kernel has to be written for it, or MR_ERR_NOMEM. */
mr_err_t mr__cuda_lower_library(mr_call_t *c, mr_diag_t *diag);

/* Whether mr__cuda_lower_library takes e, which has an open form: mr_target_t.opens keeps it then.
   Asks the library on d. */
bool mr__cuda_library_takes(mr_cuda_device_t *d, const mr_eqn_t *e);

/* Whether a kernel of one group a head (kernels/kernel.h) computes e, an attention that no library
   takes, or is asked for by MILLRACE_ATTENTION; else e is opened.  Every device of CUDA gives a
   block MR_CUDA_SHARED bytes of shared memory. */
enum { MR_CUDA_SHARED = 48 << 10 };
bool mr__cuda_kernel_attends(const mr_eqn_t *e);

/* Sets want[0,MR_CUDA_LIBRARY_KERNELS) to the kernels that a call of a library starts beside it, to
   be built before it runs, and returns how many; 0 for any other call. */
enum { MR_CUDA_LIBRARY_KERNELS = 2 };
int mr__cuda_library_wanted(const mr_call_t *c, mr_cuda_wanted_t *want);

#endif
