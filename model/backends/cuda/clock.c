/* Times by the device's clock, to half a microsecond: events in the stream of commands.  Between
   two of them the stream may also have waited for the host, if the device had done all it was
   given. */
#include "model/backends/cuda/device.h"

static void *clock_create(void) {
  const mr_cuda_device_t *d;
  cudaEvent_t event = NULL;
  if (mr__cuda_device(&d, NULL) < 0) return NULL;
  if (d->cu->cudaEventCreateWithFlags(&event, cudaEventDefault) == cudaSuccess) return event;
  d->cu->cudaGetLastError();
  return NULL;
}

static void clock_destroy(void *stamp) {
  const mr_cuda_device_t *d;
  if (stamp && mr__cuda_device(&d, NULL) == MR_OK) d->cu->cudaEventDestroy(stamp);
}

static void clock_record(void *stamp) {
  const mr_cuda_device_t *d;
  if (mr__cuda_device(&d, NULL) < 0) return;
  cudaError_t code = d->cu->cudaEventRecord(stamp, mr__cuda_stream(d));
  if (code != cudaSuccess) mr__cuda_failed(code, "a time stamp");
}

static int64_t clock_between(void *from, void *to) {
  const mr_cuda_device_t *d;
  float ms = 0;
  if (mr__cuda_device(&d, NULL) < 0) return -1;
  if (d->cu->cudaEventElapsedTime(&ms, from, to) == cudaSuccess)
    return (int64_t)((double)ms * 1e6 + 0.5);
  d->cu->cudaGetLastError();
  return -1;
}

const mr_backend_clock_t mr__cuda_clock = {.create = clock_create,
                                           .destroy = clock_destroy,
                                           .record = clock_record,
                                           .between = clock_between};
