/* Blocks of the device's memory, and copies that are done at once.  Blocks come from the driver's
   pool, whose calls are ordered like commands: cudaFree would wait for all kernels. */
#include <string.h>

#include "model/backends/cuda/device.h"

void *mr__cuda_take(size_t bytes) {
  const mr_cuda_device_t *d;
  void *data = NULL;
  if (mr__cuda_device(&d, NULL) < 0 || d->described) return NULL;
  cudaError_t code = d->cu->cudaMallocAsync(&data, bytes ? bytes : 1, d->stream);
  if (code == cudaSuccess) return data;
  d->cu->cudaGetLastError(); /* too little memory is no failure of later commands */
  return NULL;
}

void mr__cuda_give(void *data, size_t bytes) {
  const mr_cuda_device_t *d;
  if (!data || mr__cuda_device(&d, NULL) < 0) return;
  cudaError_t code = d->cu->cudaFreeAsync(data, d->stream);
  if (code != cudaSuccess) mr__cuda_failed(code, "giving memory back");
}

/* What is free, and what the pool holds for later. */
size_t mr__cuda_room(void) {
  const mr_cuda_device_t *d;
  size_t free = 0, all = 0;
  uint64_t held = 0, used = 0;
  if (mr__cuda_device(&d, NULL) < 0) return 0;
  if (d->described) return d->memory;
  if (d->cu->cudaMemGetInfo(&free, &all) != cudaSuccess) return 0;
  d->cu->cudaMemPoolGetAttribute(d->pool, cudaMemPoolAttrReservedMemCurrent, &held);
  d->cu->cudaMemPoolGetAttribute(d->pool, cudaMemPoolAttrUsedMemCurrent, &used);
  return free + (held > used ? (size_t)(held - used) : 0);
}

/* What is in use now, but for what the pool holds and what was in use at first. */
size_t mr__cuda_beside(size_t *at_open) {
  const mr_cuda_device_t *d;
  size_t free = 0, all = 0;
  uint64_t held = 0;
  *at_open = 0;
  if (mr__cuda_device(&d, NULL) < 0 || d->described) return 0;
  if (d->cu->cudaMemGetInfo(&free, &all) != cudaSuccess) return 0;
  d->cu->cudaMemPoolGetAttribute(d->pool, cudaMemPoolAttrReservedMemCurrent, &held);
  *at_open = d->used;
  size_t used = all - free, known = d->used + (size_t)held;
  return used > known ? used - known : 0;
}

void mr__cuda_copy(void *to, const void *from, size_t bytes, mr_copy_way_t way) {
  const mr_cuda_device_t *d;
  static const enum cudaMemcpyKind kind[] = {[MR_COPY_IN] = cudaMemcpyHostToDevice,
                                             [MR_COPY_OUT] = cudaMemcpyDeviceToHost,
                                             [MR_COPY_WITHIN] = cudaMemcpyDeviceToDevice};
  if (!bytes || mr__cuda_device(&d, NULL) < 0) return;
  cudaStream_t stream = mr__cuda_stream(d);
  if (stream != d->stream && way != MR_COPY_WITHIN) {
    mr__cuda_failed_by("the host waits for it", "a copy");
    return;
  }
  cudaError_t code = d->cu->cudaMemcpyAsync(to, from, bytes, kind[way], stream);
  if (code == cudaSuccess && way != MR_COPY_WITHIN) code = d->cu->cudaStreamSynchronize(d->stream);
  if (code != cudaSuccess) mr__cuda_failed(code, "a copy");
  if (way == MR_COPY_OUT && mr__cuda_usable(NULL) < 0) memset(to, 0xFF, bytes);
}
