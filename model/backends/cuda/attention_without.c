/* The place of cuDNN's attention in a build without its headers: it takes no equation, and says so
   once. */
#include <pthread.h>

#include "model/backends/cuda/attention.h"
#include "model/ops/lax.h"
#include "model/ops/operands.h"

static pthread_once_t without_said = PTHREAD_ONCE_INIT;

static void say_without(void) {
  mr_notice(
      "device cuda: this build is without cuDNN, so that attention is computed by generated "
      "kernels, which may be slow; install its headers (cudnn_backend.h) beside CUDA's and build "
      "again");
}

bool mr__cuda_attention_takes(mr_cuda_device_t *d, const mr_eqn_t *e) {
  if (mr__is_attention(e)) pthread_once(&without_said, say_without);
  return false;
}

mr_err_t mr__cuda_attention_lower(mr_call_t *c, mr_diag_t *diag) { return MR_ERR_NORULE; }

mr_err_t mr__cuda_plans_create(mr_cuda_device_t *d, mr_diag_t *diag) { return MR_OK; }

void mr__cuda_plans_destroy(mr_cuda_device_t *d) {}

size_t mr__cuda_attention_version(void) { return 0; }
