/* Blocks of the device's memory, and copies that are done at once.  Blocks come from the driver's
   pool, whose calls are ordered like commands: cudaFree would wait for all kernels.  Where a driver
   has no pool they come from cudaMalloc all the same. */
#include <stdatomic.h>
#include <string.h>

#include "model/backends/cuda/device.h"

/* Bytes of blocks that cudaMalloc gave.  Relaxed: a number for people, which orders nothing. */
static _Atomic size_t unpooled;

static size_t at_least_one(size_t bytes) { return bytes ? bytes : 1; }

void *mr__cuda_take(size_t bytes) {
  const mr_cuda_device_t *d;
  void *data = NULL;
  if (mr__cuda_device(&d, NULL) < 0 || d->described) return NULL;
  cudaError_t code = d->pool ? d->cu->cudaMallocAsync(&data, at_least_one(bytes), d->stream)
                             : d->cu->cudaMalloc(&data, at_least_one(bytes));
  if (code != cudaSuccess) {
    d->cu->cudaGetLastError(); /* too little memory is no failure of later commands */
    return NULL;
  }
  if (!d->pool) atomic_fetch_add_explicit(&unpooled, at_least_one(bytes), memory_order_relaxed);
  return data;
}

/* What a stream's commands use may be given back to a pool; cudaFree is called when they are done,
   those of copies beside them too (mr__cuda_wait_beside). */
void mr__cuda_give(void *data, size_t bytes) {
  const mr_cuda_device_t *d;
  if (!data || mr__cuda_device(&d, NULL) < 0) return;
  cudaError_t code;
  if (d->pool) {
    code = d->cu->cudaFreeAsync(data, d->stream);
  } else {
    code = d->cu->cudaStreamSynchronize(d->stream);
    if (code == cudaSuccess) code = d->cu->cudaFree(data);
    atomic_fetch_sub_explicit(&unpooled, at_least_one(bytes), memory_order_relaxed);
  }
  if (code != cudaSuccess) mr__cuda_failed(code, "giving memory back");
}

/* Bytes that the process holds for blocks, and those of them that blocks use. */
static void memory_held(const mr_cuda_device_t *d, uint64_t *held, uint64_t *used) {
  *held = *used = 0;
  if (d->pool) {
    d->cu->cudaMemPoolGetAttribute(d->pool, cudaMemPoolAttrReservedMemCurrent, held);
    d->cu->cudaMemPoolGetAttribute(d->pool, cudaMemPoolAttrUsedMemCurrent, used);
  } else {
    *held = *used = atomic_load_explicit(&unpooled, memory_order_relaxed);
  }
}

/* What is free, and what the pool holds for later. */
size_t mr__cuda_room(void) {
  const mr_cuda_device_t *d;
  size_t free = 0, all = 0;
  uint64_t held, used;
  if (mr__cuda_device(&d, NULL) < 0) return 0;
  if (d->described) return d->memory;
  if (d->cu->cudaMemGetInfo(&free, &all) != cudaSuccess) return 0;
  memory_held(d, &held, &used);
  return free + (held > used ? (size_t)(held - used) : 0);
}

/* What is in use now, but for what blocks hold and what was in use at first. */
size_t mr__cuda_beside(size_t *at_open) {
  const mr_cuda_device_t *d;
  size_t free = 0, all = 0;
  uint64_t held, in_blocks;
  *at_open = 0;
  if (mr__cuda_device(&d, NULL) < 0 || d->described) return 0;
  if (d->cu->cudaMemGetInfo(&free, &all) != cudaSuccess) return 0;
  memory_held(d, &held, &in_blocks);
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
