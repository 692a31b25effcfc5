/* Marks: an event behind all commands given to a stream so far, by which the host learns that they
   are done, or that one of them failed. */
#include <stdlib.h>

#include "model/backends/cuda/device.h"

typedef struct mark {
  cudaEvent_t event;
  int queue;
  uint64_t copies; /* given before it */
} mark_t;

/* A thread that waits for it sleeps: without the first flag it would spin. */
enum { MARK_FLAGS = cudaEventBlockingSync | cudaEventDisableTiming };

static void *cuda_mark_behind(mr_cuda_device_t *d, int queue) {
  mark_t *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  cudaError_t code = d->cu->cudaEventCreateWithFlags(&m->event, MARK_FLAGS);
  if (code != cudaSuccess) {
    d->cu->cudaGetLastError();
    return free(m), NULL;
  }
  m->queue = queue;
  m->copies = mr__cuda_pinned_mark(d, queue, m->event, &code);
  if (code != cudaSuccess) mr__cuda_failed(d, code, "a mark");
  return m;
}

/* Waits for everything that was given to a stream. */
static void reached_all(mr_cuda_device_t *d, int queue) {
  cudaError_t code;
  uint64_t copies = mr__cuda_pinned_mark(d, queue, NULL, &code);
  code = d->cu->cudaStreamSynchronize(mr__cuda_queue(d, queue));
  if (code != cudaSuccess) mr__cuda_failed(d, code, "a run");
  mr__cuda_pinned_settle(d, queue, copies);
}

void *mr__cuda_mark(const mr_device_t *device) {
  return cuda_mark_behind(mr__cuda_use(device), MR_CUDA_COMMANDS);
}

void *mr__cuda_mark_beside(const mr_device_t *device, mr_copy_way_t way) {
  mr_cuda_device_t *d = mr__cuda_use(device);
  void *m = cuda_mark_behind(d, (int)way);
  if (!m) reached_all(d, (int)way);
  return m;
}

mr_err_t mr__cuda_reached(const mr_device_t *device, void *mark, bool wait, mr_diag_t *diag) {
  mr_cuda_device_t *d = mr__cuda_use(device);
  mark_t *m = mark;
  if (!m) {
    reached_all(d, MR_CUDA_COMMANDS);
    return mr__cuda_usable(device, diag);
  }
  cudaError_t code = wait ? d->cu->cudaEventSynchronize(m->event) : d->cu->cudaEventQuery(m->event);
  if (code == cudaErrorNotReady) {
    d->cu->cudaGetLastError(); /* the answer is no failure for the next who asks for one */
    return MR_AGAIN;
  }
  if (code != cudaSuccess) mr__cuda_failed(d, code, "a run");
  mr__cuda_pinned_settle(d, m->queue, m->copies);
  d->cu->cudaEventDestroy(m->event);
  free(m);
  return mr__cuda_usable(device, diag);
}
