/* Measures what the device can do at most: fused multiply-adds in registers, and copies within its
   memory.  Products of bf16 are computed in f32 here, so both dtypes have one limit. */
#include "base/clock.h"
#include "model/backends/opencl/program.h"

enum { ITEMS = 1 << 14, SUMS = 16, TURNS = 1 << 10, RUNS = 5, COPY_BYTES = 64 << 20 };

/* 16 sums of vectors at once hide the latency of one; the store keeps the compiler from dropping
   them. */
static const char fma_text[] =
    "KERNEL k(ARG(0)) {\n"
    "  PTR(float, y0, 0);\n"
    "  u64 i = ITEM;\n"
    "  float a = 1.0f + 1e-7f * (float)i, s[16]; int j, k;\n"
    "  for (j = 0; j < 16; j++) s[j] = (float)j;\n"
    "  for (k = 0; k < 1024; k++)\n"
    "    for (j = 0; j < 16; j++) s[j] = fma(s[j], a, 1e-3f);\n"
    "  for (j = 1; j < 16; j++) s[0] += s[j];\n"
    "  y0[i] = s[0];\n"
    "}\n";

/* The seconds of the best of a few runs of the kernel over y. */
static double fma_seconds(const mr_opencl_device_t *d, cl_kernel kernel, void *y) {
  double best = 0;
  size_t items = ITEMS, offset;
  cl_mem buffer = mr__opencl_find(y, &offset);
  cl_ulong at = offset;
  cl_int code = d->cl->clSetKernelArg(kernel, 0, sizeof(cl_mem), &buffer);
  if (code == CL_SUCCESS) code = d->cl->clSetKernelArg(kernel, 1, sizeof at, &at);
  for (int i = 0; i < RUNS && code == CL_SUCCESS; i++) {
    double from = mr_now_s();
    code = d->cl->clEnqueueNDRangeKernel(d->queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL);
    if (code == CL_SUCCESS) code = d->cl->clFinish(d->queue);
    double took = mr_now_s() - from;
    if (!best || took < best) best = took;
  }
  return code == CL_SUCCESS ? best : 0;
}

double mr__opencl_fma(mr_dtype_t dtype, int threads) {
  const mr_opencl_device_t *d;
  cl_kernel kernel = NULL;
  mr_diag_t unsaid = {0};
  if (mr__opencl_device(&d, NULL) < 0) return 0;
  const mr_opencl_wanted_t want = {fma_text, &kernel};
  if (mr__opencl_kernels(d, &want, 1, &unsaid) < 0) return 0;
  void *y = mr__opencl_take(ITEMS * sizeof(float));
  double seconds = y ? fma_seconds(d, kernel, y) : 0;
  mr__opencl_give(y, ITEMS * sizeof(float));
  d->cl->clReleaseKernel(kernel);
  return seconds > 0 ? 2.0 * ITEMS * SUMS * TURNS / seconds / 1e9 : 0;
}

double mr__opencl_bandwidth(int threads) {
  void *from = mr__opencl_take(COPY_BYTES), *to = mr__opencl_take(COPY_BYTES);
  double best = 0;
  for (int i = 0; i < RUNS && from && to; i++) {
    double start = mr_now_s();
    mr__opencl_copy(to, from, COPY_BYTES, MR_COPY_WITHIN);
    if (mr__opencl_reached(NULL, true, NULL) < 0) break;
    double took = mr_now_s() - start;
    if (i && (!best || took < best)) best = took; /* the first touches the memory */
  }
  mr__opencl_give(from, COPY_BYTES);
  mr__opencl_give(to, COPY_BYTES);
  return best > 0 ? 2.0 * COPY_BYTES / best / 1e9 : 0;
}
