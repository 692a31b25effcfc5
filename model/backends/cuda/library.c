/* Which library takes an equation: cuBLASLt products, cuDNN attention.  Everything else, and what
   they refuse, gets a generated kernel. */
#include "model/backends/cuda/library.h"

#include "model/backends/cuda/attention.h"
#include "model/backends/cuda/blas.h"

mr_err_t mr__cuda_lower_library(mr_call_t *c, mr_diag_t *diag) {
  mr_err_t e = mr__cuda_blas_lower(c, diag);
  return e == MR_ERR_NORULE ? mr__cuda_attention_lower(c, diag) : e;
}

bool mr__cuda_library_takes(const mr_eqn_t *e) {
  return mr__cuda_blas_takes(e) || mr__cuda_attention_takes(e);
}

int mr__cuda_library_wanted(const mr_call_t *c, mr_cuda_wanted_t *want) {
  return mr__cuda_blas_wanted(c, want);
}
