/* Copies beside the commands: a stream for each way, since a device copies in both directions at
   once.  What one stream has to wait for in another it waits for by an event on the device. */
#include "model/backends/cuda/device.h"

void mr__cuda_copy_beside(const mr_device_t *device, void *to, const void *from, size_t bytes,
                          mr_copy_way_t way) {
  mr_cuda_device_t *d = mr__cuda_use(device);
  if (!bytes) return;
  const mr_cuda_beside_t *b = &d->beside[way];
  cudaError_t code = mr__cuda_pinned_copy(d, (int)way, to, from, bytes, way == MR_COPY_IN);
  if (code == cudaSuccess) code = d->cu->cudaEventRecord(b->copied, b->stream);
  if (code != cudaSuccess) mr__cuda_failed(d, code, "a copy");
}

/* The same event each time: a wait is for what was recorded when it was given. */
void mr__cuda_follow_beside(const mr_device_t *device, mr_copy_way_t way) {
  mr_cuda_device_t *d = mr__cuda_use(device);
  const mr_cuda_beside_t *b = &d->beside[way];
  cudaError_t code = d->cu->cudaEventRecord(b->given, d->stream);
  if (code == cudaSuccess)
    code = d->cu->cudaStreamWaitEvent(b->stream, b->given, cudaEventWaitDefault);
  if (code != cudaSuccess) mr__cuda_failed(d, code, "a wait for a run");
}

/* In a recording the event is outside of the graph: a node waits for it, in each launch. */
void mr__cuda_wait_beside(const mr_device_t *device, mr_copy_way_t way) {
  mr_cuda_device_t *d = mr__cuda_use(device);
  unsigned flags = mr__cuda_recording() ? cudaEventWaitExternal : cudaEventWaitDefault;
  cudaError_t code = d->cu->cudaStreamWaitEvent(mr__cuda_stream(d), d->beside[way].copied, flags);
  if (code != cudaSuccess) mr__cuda_failed(d, code, "a wait for a copy");
}
