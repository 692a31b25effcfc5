/* Copies that are done later.  A copy from or to memory that the system may move would make the
   driver wait for the commands before it, so that such bytes go through pinned buffers, which are
   kept for the next copies.  Copies are done in order: the buffers under way form a queue. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "model/backends/cuda/device.h"

typedef struct pinned {
  struct pinned *next;
  char *data;   /* pinned */
  size_t room;  /* of data */
  size_t bytes; /* of the copy under way */
  void *to;     /* where the host wants them; NULL: they went in */
} pinned_t;

static struct {
  pthread_mutex_t lock;
  pinned_t *first, **last; /* under way, in the order of their commands */
  pinned_t *idle;
  uint64_t given, done; /* copies */
} pins = {.lock = PTHREAD_MUTEX_INITIALIZER, .last = &pins.first};

/* The smallest idle buffer that is large enough, or a new one; NULL without memory. */
static pinned_t *pins_take(const mr_cuda_device_t *d, size_t bytes) {
  pinned_t **best = NULL;
  for (pinned_t **p = &pins.idle; *p; p = &(*p)->next)
    if ((*p)->room >= bytes && (!best || (*p)->room < (*best)->room)) best = p;
  if (best && (*best)->room / 2 <= bytes + 4096) {
    pinned_t *p = *best;
    *best = p->next;
    return p;
  }
  pinned_t *p = calloc(1, sizeof *p);
  void *data = NULL;
  if (p && d->cu->cudaMallocHost(&data, bytes) == cudaSuccess) {
    p->data = data, p->room = bytes;
    return p;
  }
  free(p);
  d->cu->cudaGetLastError();
  return NULL;
}

static void pins_append(pinned_t *p, size_t bytes, void *to) {
  p->next = NULL, p->bytes = bytes, p->to = to;
  *pins.last = p;
  pins.last = &p->next;
  pins.given++;
}

static bool is_pinned(const mr_cuda_device_t *d, const void *host) {
  struct cudaPointerAttributes a = {.type = cudaMemoryTypeUnregistered};
  if (d->cu->cudaPointerGetAttributes(&a, host) == cudaSuccess) return a.type == cudaMemoryTypeHost;
  d->cu->cudaGetLastError();
  return false;
}

/* With the lock held, so that the queue has the order of the commands. */
static cudaError_t copy_through(const mr_cuda_device_t *d, pinned_t *p, void *to, const void *from,
                                size_t bytes, bool in) {
  if (in) memcpy(p->data, from, bytes);
  cudaError_t code =
      d->cu->cudaMemcpyAsync(in ? to : p->data, in ? p->data : from, bytes,
                             in ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, d->stream);
  pins_append(p, bytes, in ? NULL : to);
  return code;
}

void mr__cuda_copy_later(void *to, const void *from, size_t bytes, mr_copy_way_t way) {
  const mr_cuda_device_t *d;
  bool in = way == MR_COPY_IN;
  cudaError_t code = cudaSuccess;
  if (!bytes || mr__cuda_device(&d, NULL) < 0) return;
  if (way == MR_COPY_WITHIN) {
    mr__cuda_copy(to, from, bytes, way);
    return;
  }
  if (is_pinned(d, in ? from : to)) {
    code = d->cu->cudaMemcpyAsync(to, from, bytes,
                                  in ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, d->stream);
  } else {
    pthread_mutex_lock(&pins.lock);
    pinned_t *p = pins_take(d, bytes);
    if (p) code = copy_through(d, p, to, from, bytes, in);
    pthread_mutex_unlock(&pins.lock);
    if (!p) mr__cuda_copy(to, from, bytes, way); /* later may be now */
  }
  if (code != cudaSuccess) mr__cuda_failed(code, "a copy");
}

uint64_t mr__cuda_pinned_mark(const mr_cuda_device_t *d, cudaEvent_t event, cudaError_t *code) {
  pthread_mutex_lock(&pins.lock);
  *code = event ? d->cu->cudaEventRecord(event, d->stream) : cudaSuccess;
  uint64_t given = pins.given;
  pthread_mutex_unlock(&pins.lock);
  return given;
}

void mr__cuda_pinned_settle(uint64_t until) {
  bool usable = mr__cuda_usable(NULL) == MR_OK;
  pthread_mutex_lock(&pins.lock);
  while (pins.first && pins.done < until) {
    pinned_t *p = pins.first;
    if (p->to && usable) memcpy(p->to, p->data, p->bytes);
    if (p->to && !usable) memset(p->to, 0xFF, p->bytes);
    if (!(pins.first = p->next)) pins.last = &pins.first;
    p->next = pins.idle, pins.idle = p;
    pins.done++;
  }
  pthread_mutex_unlock(&pins.lock);
}
