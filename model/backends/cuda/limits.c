/* The limits of an NVIDIA GPU: runs the kernel of kernels/limits.h on the thread's stream, over as
   many items as fill every multiprocessor. */
#include "model/backends/kernels/limits.h"
#include "model/backends/cuda/program.h"

enum { ITEMS = 1 << 20 };
#define COPY_BYTES ((size_t)256 << 20)

typedef struct fma_launch {
  const mr_cuda_device_t *d;
  cudaKernel_t kernel;
  void *y;
} fma_launch_t;

static bool launch_fma(void *arg) {
  fma_launch_t *r = arg;
  return mr__cuda_launch(r->d, r->kernel, ITEMS, 0, &r->y, 1) == cudaSuccess &&
         r->d->cu->cudaStreamSynchronize(r->d->stream) == cudaSuccess;
}

double mr__cuda_fma(mr_dtype_t dtype, int threads) {
  fma_launch_t r = {0};
  mr_diag_t unsaid = {0};
  const mr_cuda_wanted_t want = {mr__kernel_fma_text, &r.kernel};
  if (mr__cuda_device(&r.d, NULL) < 0 || mr__cuda_kernels(r.d, &want, 1, &unsaid) < 0) return 0;
  r.y = mr__cuda_take(ITEMS * sizeof(float));
  double rate = r.y ? mr__kernel_fma(ITEMS, launch_fma, &r) : 0;
  mr__cuda_give(r.y, ITEMS * sizeof(float));
  return rate;
}

double mr__cuda_bandwidth(int threads) {
  return mr__kernel_bandwidth(mr_backend_find("cuda"), COPY_BYTES);
}
