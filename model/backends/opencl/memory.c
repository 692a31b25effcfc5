/* Blocks of the device's memory behind addresses, and copies.  The executor computes with pointers,
   and OpenCL 1.2 has none: each buffer gets a range of the address space without access, so that a
   pointer into it finds its buffer and offset, and a host that reads it faults at once. */
#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "model/backends/opencl/device.h"

/* The number of regions that begin at `at` or before it. */
static size_t heap_before(const mr_opencl_heap_t *heap, const void *at) {
  size_t low = 0, high = heap->n;
  while (low < high) {
    size_t mid = (low + high) / 2;
    if ((const char *)at < heap->region[mid].base)
      high = mid;
    else
      low = mid + 1;
  }
  return low;
}

static bool heap_add(mr_opencl_heap_t *heap, mr_opencl_region_t r) {
  if (heap->n == heap->cap) {
    size_t cap = heap->cap ? 2 * heap->cap : 64;
    mr_opencl_region_t *more = realloc(heap->region, cap * sizeof *more);
    if (!more) return false;
    heap->region = more, heap->cap = cap;
  }
  size_t at = heap_before(heap, r.base);
  memmove(heap->region + at + 1, heap->region + at, (heap->n - at) * sizeof r);
  heap->region[at] = r;
  heap->n++;
  heap->taken += r.bytes;
  return true;
}

void *mr__opencl_take(const mr_device_t *device, size_t bytes) {
  mr_opencl_device_t *d = mr__opencl_device(device);
  mr_opencl_heap_t *heap = &d->heap;
  enum { PAGE = 4096 };
  if (bytes > SIZE_MAX - PAGE) return NULL;
  mr_opencl_region_t r = {.bytes = (bytes / PAGE + 1) * PAGE};
  cl_int code;
  r.buffer = d->cl->clCreateBuffer(d->context, CL_MEM_READ_WRITE, bytes ? bytes : 1, NULL, &code);
  if (code != CL_SUCCESS) return NULL;
  r.base = mmap(NULL, r.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  pthread_mutex_lock(&heap->lock);
  bool added = r.base != MAP_FAILED && heap_add(heap, r);
  pthread_mutex_unlock(&heap->lock);
  if (added) return r.base;
  if (r.base != MAP_FAILED) munmap(r.base, r.bytes);
  d->cl->clReleaseMemObject(r.buffer);
  return NULL;
}

void mr__opencl_give(const mr_device_t *device, void *data, size_t bytes) {
  mr_opencl_device_t *d = mr__opencl_device(device);
  mr_opencl_heap_t *heap = &d->heap;
  if (!data) return;
  pthread_mutex_lock(&heap->lock);
  size_t at = heap_before(heap, data);
  assert(at && heap->region[at - 1].base == data);
  mr_opencl_region_t r = heap->region[at - 1];
  memmove(heap->region + at - 1, heap->region + at, (heap->n - at) * sizeof r);
  heap->n--;
  heap->taken -= r.bytes;
  pthread_mutex_unlock(&heap->lock);
  munmap(r.base, r.bytes);
  d->cl->clReleaseMemObject(r.buffer); /* commands that were given still hold it */
}

cl_mem mr__opencl_find(mr_opencl_device_t *d, const void *at, size_t *offset) {
  mr_opencl_heap_t *heap = &d->heap;
  *offset = 0;
  pthread_mutex_lock(&heap->lock);
  size_t n = heap_before(heap, at);
  const mr_opencl_region_t *r = n ? &heap->region[n - 1] : NULL;
  bool inside = r && (const char *)at < r->base + r->bytes;
  cl_mem buffer = inside ? r->buffer : NULL;
  if (inside) *offset = (size_t)((const char *)at - r->base);
  pthread_mutex_unlock(&heap->lock);
  assert(inside || !at);
  return buffer;
}

static cl_int copy_enqueue(mr_opencl_device_t *d, cl_command_queue q, void *to, const void *from,
                           size_t bytes, mr_copy_way_t way, cl_bool waits) {
  size_t at_to = 0, at_from = 0;
  cl_mem dest = way == MR_COPY_OUT ? NULL : mr__opencl_find(d, to, &at_to);
  cl_mem source = way == MR_COPY_IN ? NULL : mr__opencl_find(d, from, &at_from);
  switch (way) {
    case MR_COPY_IN:
      return d->cl->clEnqueueWriteBuffer(q, dest, waits, at_to, bytes, from, 0, NULL, NULL);
    case MR_COPY_OUT:
      return d->cl->clEnqueueReadBuffer(q, source, waits, at_from, bytes, to, 0, NULL, NULL);
    case MR_COPY_WITHIN: break;
  }
  return d->cl->clEnqueueCopyBuffer(q, source, dest, at_from, at_to, bytes, 0, NULL, NULL);
}

static void copy_give(const mr_device_t *device, bool beside, void *to, const void *from,
                      size_t bytes, mr_copy_way_t way, cl_bool waits) {
  mr_opencl_device_t *d = mr__opencl_device(device);
  if (!bytes) return;
  cl_command_queue q = beside ? d->copies[way] : d->queue;
  cl_int code = copy_enqueue(d, q, to, from, bytes, way, waits);
  if (code != CL_SUCCESS) mr__opencl_failed(d, code, "a copy");
  if (way == MR_COPY_OUT && mr__opencl_usable(device, NULL) < 0) memset(to, 0xFF, bytes);
}

void mr__opencl_copy(const mr_device_t *device, void *to, const void *from, size_t bytes,
                     mr_copy_way_t way) {
  copy_give(device, false, to, from, bytes, way, CL_TRUE);
}

void mr__opencl_copy_later(const mr_device_t *device, void *to, const void *from, size_t bytes,
                           mr_copy_way_t way) {
  copy_give(device, false, to, from, bytes, way, CL_FALSE);
}

void mr__opencl_copy_beside(const mr_device_t *device, void *to, const void *from, size_t bytes,
                            mr_copy_way_t way) {
  copy_give(device, true, to, from, bytes, way, CL_FALSE);
}

size_t mr__opencl_taken(mr_opencl_device_t *d) {
  mr_opencl_heap_t *heap = &d->heap;
  pthread_mutex_lock(&heap->lock);
  size_t taken = heap->taken;
  pthread_mutex_unlock(&heap->lock);
  return taken;
}
