/* Blocks of the device's memory, and copies that are done at once.  Blocks come from the driver's
   pool, whose calls are ordered like commands: cudaFree would wait for all kernels.  Where a driver
   has no pool they come from cudaMalloc all the same. */
#include <stdatomic.h>
#include <string.h>

#include "model/backends/cuda/device.h"

static size_t at_least_one(size_t bytes) { return bytes ? bytes : 1; }

void *mr__cuda_take(const mr_device_t *device, size_t bytes) {
  mr_cuda_device_t *d = mr__cuda_use(device);
  void *data = NULL;
  if (d->described) return NULL;
  cudaError_t code = d->pool ? d->cu->cudaMallocAsync(&data, at_least_one(bytes), d->stream)
                             : d->cu->cudaMalloc(&data, at_least_one(bytes));
  if (code != cudaSuccess) {
    d->cu->cudaGetLastError(); /* too little memory is no failure of later commands */
    return NULL;
  }
  /* Relaxed, here and below: a number for people, which orders nothing. */
  if (!d->pool) atomic_fetch_add_explicit(&d->unpooled, at_least_one(bytes), memory_order_relaxed);
  return data;
}

/* What a stream's commands use may be given back to a pool; cudaFree is called when they are done,
   those of copies beside them too (mr__cuda_wait_beside). */
void mr__cuda_give(const mr_device_t *device, void *data, size_t bytes) {
  if (!data) return;
  mr_cuda_device_t *d = mr__cuda_use(device);
  cudaError_t code;
  if (d->pool) {
    code = d->cu->cudaFreeAsync(data, d->stream);
  } else {
    code = d->cu->cudaStreamSynchronize(d->stream);
    if (code == cudaSuccess) code = d->cu->cudaFree(data);
    atomic_fetch_sub_explicit(&d->unpooled, at_least_one(bytes), memory_order_relaxed);
  }
  if (code != cudaSuccess) mr__cuda_failed(d, code, "giving memory back");
}

/* Bytes that the process holds for blocks, and those of them that blocks use. */
static void count_memory_held(const mr_cuda_device_t *d, uint64_t *held, uint64_t *used) {
  *held = *used = 0;
  if (d->pool) {
    d->cu->cudaMemPoolGetAttribute(d->pool, cudaMemPoolAttrReservedMemCurrent, held);
    d->cu->cudaMemPoolGetAttribute(d->pool, cudaMemPoolAttrUsedMemCurrent, used);
  } else {
    *held = *used = atomic_load_explicit(&d->unpooled, memory_order_relaxed);
  }
}

/* What is free, and what the pool holds for later. */
size_t mr__cuda_room(const mr_device_t *device) {
  mr_cuda_device_t *d = mr__cuda_use(device);
  size_t free = 0, all = 0;
  uint64_t held, used;
  if (d->described) return d->memory;
  if (d->cu->cudaMemGetInfo(&free, &all) != cudaSuccess) return 0;
  count_memory_held(d, &held, &used);
  return free + (held > used ? (size_t)(held - used) : 0);
}

/* What is in use now, but for what blocks hold and what was in use at first. */
size_t mr__cuda_beside(const mr_device_t *device, size_t *at_open) {
  mr_cuda_device_t *d = mr__cuda_use(device);
  size_t free = 0, all = 0;
  uint64_t held, in_blocks;
  *at_open = 0;
  if (d->described) return 0;
  if (d->cu->cudaMemGetInfo(&free, &all) != cudaSuccess) return 0;
  count_memory_held(d, &held, &in_blocks);
  *at_open = d->used;
  size_t used = all - free, known = d->used + (size_t)held;
  return used > known ? used - known : 0;
}

void mr__cuda_copy(const mr_device_t *device, void *to, const void *from, size_t bytes,
                   mr_copy_way_t way) {
  mr_cuda_device_t *d = mr__cuda_use(device);
  static const enum cudaMemcpyKind kind[] = {[MR_COPY_IN] = cudaMemcpyHostToDevice,
                                             [MR_COPY_OUT] = cudaMemcpyDeviceToHost,
                                             [MR_COPY_WITHIN] = cudaMemcpyDeviceToDevice};
  if (!bytes) return;
  cudaStream_t stream = mr__cuda_stream(d);
  if (stream != d->stream && way != MR_COPY_WITHIN) {
    mr__cuda_failed_by(d, "the host waits for it", "a copy");
    return;
  }
  cudaError_t code = d->cu->cudaMemcpyAsync(to, from, bytes, kind[way], stream);
  if (code == cudaSuccess && way != MR_COPY_WITHIN) code = d->cu->cudaStreamSynchronize(d->stream);
  if (code != cudaSuccess) mr__cuda_failed(d, code, "a copy");
  if (way == MR_COPY_OUT && mr__cuda_usable(device, NULL) < 0) memset(to, 0xFF, bytes);
}
