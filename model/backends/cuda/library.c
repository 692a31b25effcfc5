/* Which library takes an equation: cuBLASLt products, cuDNN attention.  Everything else, and what
   they refuse, gets a generated kernel. */
#include "model/backends/cuda/library.h"

#include "model/backends/cuda/attention.h"
#include "model/backends/cuda/attention_tuned.h"
#include "model/backends/cuda/blas.h"
#include "model/backends/kernels/attention_way.h"
#include "model/backends/kernels/kernel.h"

/* Whether attention is asked of cuDNN, before a kernel is written or the equation is opened. */
static bool asks_cudnn(const mr_eqn_t *e) {
  mr_attention_way_t way = mr_attention_way();
  return way != MR_ATTENTION_OPENED &&
         !(way == MR_ATTENTION_OWN && mr_kernels_attend(e, MR_CUDA_SHARED));
}

/* Lowers attention to cuDNN, unless the kernel is known to be faster. */
static mr_err_t lower_by_cudnn(mr_call_t *c, mr_diag_t *diag) {
  const mr_call_t before = *c;
  mr_err_t e = mr__cuda_attention_lower(c, diag);
  if (e < 0 || mr_attention_way() == MR_ATTENTION_CUDNN ||
      !mr_kernels_attend(c->eqn, MR_CUDA_SHARED) || !mr__cuda_attention_own_is_faster(c))
    return e;
  c->fini(c->state);
  *c = before;
  return MR_ERR_NORULE;
}

mr_err_t mr__cuda_lower_library(mr_call_t *c, mr_diag_t *diag) {
  mr_err_t e = mr__cuda_blas_lower(c, diag);
  return e == MR_ERR_NORULE && asks_cudnn(c->eqn) ? lower_by_cudnn(c, diag) : e;
}

bool mr__cuda_library_takes(mr_cuda_device_t *d, const mr_eqn_t *e) {
  return mr__cuda_blas_takes(d, e) || (asks_cudnn(e) && mr__cuda_attention_takes(d, e));
}

bool mr__cuda_kernel_attends(const mr_eqn_t *e) {
  mr_attention_way_t way = mr_attention_way();
  return (way == MR_ATTENTION_USUAL || way == MR_ATTENTION_OWN) &&
         mr_kernels_attend(e, MR_CUDA_SHARED);
}

int mr__cuda_library_wanted(const mr_call_t *c, mr_cuda_wanted_t *want) {
  return mr__cuda_blas_wanted(c, want);
}
