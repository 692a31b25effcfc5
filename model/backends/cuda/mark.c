/* Marks: an event behind all commands given so far, by which the host learns that they are done, or
   that one of them failed. */
#include <stdlib.h>

#include "model/backends/cuda/device.h"

typedef struct mark {
  cudaEvent_t event;
  uint64_t copies; /* given before it */
} mark_t;

/* A thread that waits for it sleeps: without the first flag it would spin. */
enum { MARK_FLAGS = cudaEventBlockingSync | cudaEventDisableTiming };

void *mr__cuda_mark(void) {
  const mr_cuda_device_t *d;
  mark_t *m = calloc(1, sizeof *m);
  if (!m || mr__cuda_device(&d, NULL) < 0) return free(m), NULL;
  cudaError_t code = d->cu->cudaEventCreateWithFlags(&m->event, MARK_FLAGS);
  if (code != cudaSuccess) {
    d->cu->cudaGetLastError();
    return free(m), NULL;
  }
  m->copies = mr__cuda_pinned_mark(d, m->event, &code);
  if (code != cudaSuccess) mr__cuda_failed(code, "a mark");
  return m;
}

/* Everything that was given. */
static mr_err_t reached_all(const mr_cuda_device_t *d, mr_diag_t *diag) {
  cudaError_t code;
  uint64_t copies = mr__cuda_pinned_mark(d, NULL, &code);
  code = d->cu->cudaStreamSynchronize(d->stream);
  if (code != cudaSuccess) mr__cuda_failed(code, "a run");
  mr__cuda_pinned_settle(copies);
  return mr__cuda_usable(diag);
}

mr_err_t mr__cuda_reached(void *mark, bool wait, mr_diag_t *diag) {
  const mr_cuda_device_t *d;
  mark_t *m = mark;
  MR_TRY(mr__cuda_device(&d, diag));
  if (!m) return reached_all(d, diag);
  cudaError_t code = wait ? d->cu->cudaEventSynchronize(m->event) : d->cu->cudaEventQuery(m->event);
  if (code == cudaErrorNotReady) {
    d->cu->cudaGetLastError(); /* the answer is no failure for the next who asks for one */
    return MR_AGAIN;
  }
  if (code != cudaSuccess) mr__cuda_failed(code, "a run");
  mr__cuda_pinned_settle(m->copies);
  d->cu->cudaEventDestroy(m->event);
  free(m);
  return mr__cuda_usable(diag);
}
