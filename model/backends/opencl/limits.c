/* The limits of an OpenCL device: runs the kernel of kernels/limits.h in its queue, over few items,
   since the device may be PoCL's CPU. */
#include "model/backends/kernels/limits.h"
#include "model/backends/opencl/program.h"

enum { ITEMS = 1 << 14, GROUP = 64 };

/* Of a copy: much more than the caches hold of a GPU, and of a CPU, which copies the host's memory.
 */
#define COPY_BYTES ((size_t)1 << 30)
#define COPY_BYTES_CPU ((size_t)256 << 20)

typedef struct fma_run {
  mr_opencl_device_t *d;
  cl_kernel kernel;
} fma_run_t;

static bool run_fma(void *arg) {
  const fma_run_t *r = arg;
  size_t items = ITEMS, group = GROUP;
  return r->d->cl->clEnqueueNDRangeKernel(r->d->queue, r->kernel, 1, NULL, &items, &group, 0, NULL,
                                          NULL) == CL_SUCCESS;
}

static bool set_operand(const fma_run_t *r, void *y) {
  size_t offset;
  cl_mem buffer = mr__opencl_find(r->d, y, &offset);
  cl_ulong at = offset;
  return r->d->cl->clSetKernelArg(r->kernel, 0, sizeof(cl_mem), &buffer) == CL_SUCCESS &&
         r->d->cl->clSetKernelArg(r->kernel, 1, sizeof at, &at) == CL_SUCCESS;
}

double mr__opencl_fma(const mr_device_t *device, mr_dtype_t dtype, int threads) {
  fma_run_t r = {.d = mr__opencl_device(device)};
  mr_diag_t unsaid = {0};
  const mr_opencl_wanted_t want = {mr__kernel_fma_text, &r.kernel};
  if (mr__opencl_kernels(r.d, &want, 1, &unsaid) < 0) return 0;
  void *y = mr__opencl_take(device, ITEMS * sizeof(float));
  double rate = y && set_operand(&r, y) ? mr__kernel_fma(device, ITEMS, run_fma, &r) : 0;
  mr__opencl_give(device, y, ITEMS * sizeof(float));
  r.d->cl->clReleaseKernel(r.kernel);
  return rate;
}

double mr__opencl_bandwidth(const mr_device_t *device, int threads) {
  const mr_opencl_device_t *d = mr__opencl_device(device);
  cl_device_type type = 0;
  d->cl->clGetDeviceInfo(d->id, CL_DEVICE_TYPE, sizeof type, &type, NULL);
  return mr__kernel_bandwidth(device, type & CL_DEVICE_TYPE_CPU ? COPY_BYTES_CPU : COPY_BYTES);
}
