/* Times by the device's clock, to half a microsecond: events in the stream of commands.  Between
   two of them the stream may also have waited for the host, if the device had done all it was
   given. */
#include "model/backends/cuda/device.h"

static void *clock_create(const mr_device_t *device) {
  mr_cuda_device_t *d = mr__cuda_use(device);
  cudaEvent_t event = NULL;
  if (d->cu->cudaEventCreateWithFlags(&event, cudaEventDefault) == cudaSuccess) return event;
  d->cu->cudaGetLastError();
  return NULL;
}

static void clock_destroy(const mr_device_t *device, void *stamp) {
  if (stamp) mr__cuda_use(device)->cu->cudaEventDestroy(stamp);
}

static void clock_record(const mr_device_t *device, void *stamp) {
  mr_cuda_device_t *d = mr__cuda_use(device);
  cudaError_t code = d->cu->cudaEventRecord(stamp, mr__cuda_stream(d));
  if (code != cudaSuccess) mr__cuda_failed(d, code, "a time stamp");
}

static int64_t clock_between(const mr_device_t *device, void *from, void *to) {
  mr_cuda_device_t *d = mr__cuda_use(device);
  float ms = 0;
  if (d->cu->cudaEventElapsedTime(&ms, from, to) == cudaSuccess)
    return (int64_t)((double)ms * 1e6 + 0.5);
  d->cu->cudaGetLastError();
  return -1;
}

const mr_clock_ops_t mr__cuda_clock = {.create = clock_create,
                                       .destroy = clock_destroy,
                                       .record = clock_record,
                                       .between = clock_between};
