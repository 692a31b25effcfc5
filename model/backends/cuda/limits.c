/* The limits of an NVIDIA GPU.  In f32 it runs the kernel of kernels/limits.h on the thread's
   stream, over as many items as fill every multiprocessor; in bf16, whose limit is that of the
   tensor cores, cuBLASLt multiplies two square matrices. */
#include "model/backends/kernels/limits.h"

#include <string.h>

#include "model/backends/cuda/attention.h"
#include "model/backends/cuda/matmul.h"
#include "model/backends/cuda/program.h"
#include "model/backends/cuda/switch.h"

enum { ITEMS = 1 << 20, SIDE = 8192 };
#define COPY_BYTES ((size_t)1 << 30) /* no second-level cache holds a part worth counting */

typedef struct fma_launch {
  mr_cuda_device_t *d;
  cudaKernel_t kernel;
  void *y;
} fma_launch_t;

static bool launch_fma(void *arg) {
  fma_launch_t *r = arg;
  return mr__cuda_launch(r->d, r->kernel, ITEMS, 0, &r->y, 1) == cudaSuccess;
}

/* GFLOP/s of a product of bf16; 0 without cuBLASLt or memory. */
static double product_rate(mr_cuda_device_t *d) {
  const mr_product_operand_t square = {
      .dtype = MR_BF16, .from = MR_BF16, .rows = SIDE, .cols = SIDE, .ld = SIDE};
  const mr_product_t p = {.m = SIDE,
                          .n = SIDE,
                          .k = SIDE,
                          .batch = 1,
                          .a = square,
                          .b = square,
                          .d = MR_BF16,
                          .d_ld = SIDE,
                          .d_batch = (int64_t)SIDE * SIDE,
                          .bias = -1,
                          .sums = MR_PRODUCT_F32};
  const mr_cublaslt_t *lt;
  cublasLtHandle_t handle;
  mr_cuda_matmul_t m;
  mr_cuda_algorithm_t chosen;
  uint64_t ns = 0;
  if (mr__cuda_is_off(MR_CUDA_SWITCH_CUBLASLT) || mr__cublaslt(&lt, NULL) < 0 ||
      mr__cublaslt_handle(d, lt, &handle, NULL) < 0)
    return 0;
  bool there = mr__cuda_matmul(lt, &p, &m, NULL) == MR_OK &&
               mr__cuda_algorithm(d, &p, 64, &m, &chosen, NULL) == MR_OK;
  if (there) {
    const cublasLtMatmulHeuristicResult_t r = {.algo = chosen.algo,
                                               .workspaceSize = chosen.workspace};
    there = mr__cuda_tune(d, handle, &p, &m, &r, 1, &ns) == 0;
  }
  mr__cuda_matmul_fini(&m);
  return there && ns ? 2.0 * SIDE * SIDE * SIDE / (double)ns : 0;
}

double mr__cuda_fma(const mr_device_t *device, mr_dtype_t dtype, int threads) {
  mr_cuda_device_t *d = mr__cuda_use(device);
  const mr_cuda_described_t *described = d->described;
  if (described)
    return dtype == MR_BF16 || dtype == MR_F16 ? described->bf16_gflops : described->f32_gflops;
  double product = dtype == MR_BF16 || dtype == MR_F16 ? product_rate(d) : 0;
  if (product > 0) return product;
  fma_launch_t r = {.d = d};
  mr_diag_t unsaid = {0};
  const mr_cuda_wanted_t want = {mr__kernel_fma_text, &r.kernel};
  if (mr__cuda_kernels(d, &want, 1, &unsaid) < 0) return 0;
  r.y = mr__cuda_take(device, ITEMS * sizeof(float));
  double rate = r.y ? mr__kernel_fma(device, ITEMS, launch_fma, &r) : 0;
  mr__cuda_give(device, r.y, ITEMS * sizeof(float));
  return rate;
}

double mr__cuda_bandwidth(const mr_device_t *device, int threads) {
  const mr_cuda_described_t *described = mr__cuda_use(device)->described;
  return described ? described->copy_gbs : mr__kernel_bandwidth(device, COPY_BYTES);
}

mr_err_t mr__cuda_write_described(const mr_device_t *device, FILE *to, mr_diag_t *diag) {
  mr_cuda_device_t *d = mr__cuda_use(device);
  const mr_cublaslt_t *lt;
  mr_cuda_described_t is = {.major = (uint64_t)d->major,
                            .minor = (uint64_t)d->minor,
                            .processors = (uint64_t)d->processors,
                            .memory = d->memory,
                            .cublaslt = mr__cublaslt(&lt, NULL) < 0 ? 0 : lt->version,
                            .cudnn = mr__cuda_attention_version(),
                            .f32_gflops = mr__cuda_fma(device, MR_F32, 1),
                            .bf16_gflops = mr__cuda_fma(device, MR_BF16, 1),
                            .copy_gbs = mr__cuda_bandwidth(device, 1)};
  memcpy(is.name, d->name, sizeof is.name);
  mr__cuda_described_print(d->described ? d->described : &is, to);
  return MR_OK;
}
