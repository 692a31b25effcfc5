/* Products by cuBLASLt: the equations that it takes, and their lowering. */
#ifndef MR_MODEL_BACKENDS_CUDA_BLAS_H
#define MR_MODEL_BACKENDS_CUDA_BLAS_H

#include "model/backends/cuda/program.h"
#include "model/backends/kernels/product.h"
#include "model/exec/call.h"

/* Whether mr__cuda_blas_lower takes e on d: there is a plan, and cuBLASLt names an algorithm for
   it.  Without the library a notice is sent, once.  Any thread. */
bool mr__cuda_blas_takes(mr_cuda_device_t *d, const mr_eqn_t *e);

/* As mr_compile_ops_t.lower: MR_OK, or MR_ERR_NORULE without a sentence if cuBLASLt
   does not take c->eqn, or MR_ERR_NOMEM. */
mr_err_t mr__cuda_blas_lower(mr_call_t *c, mr_diag_t *diag);

/* Sets want[0,2) to the kernels that copy operands of c, to be built before it
   runs, and returns how many; 0 for a call that mr__cuda_blas_lower has not
   filled. */
int mr__cuda_blas_wanted(const mr_call_t *c, mr_cuda_wanted_t *want);

#endif
