/* Copies that are done later.  A copy from or to memory that the system may move would make the
   driver wait for the commands before it, so that such bytes go through pinned buffers, which are
   kept for the next copies.  The copies of a stream are done in order: its buffers under way form a
   queue.  Bytes are moved without the queue's lock, which marks take. */
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

typedef struct mr_cuda_pins {
  pthread_mutex_t lock;
  pthread_mutex_t settling; /* taken before `lock`, and held while ended copies are moved out */
  pinned_t *first, *last;   /* under way, in the order of their commands; NULL: none */
  pinned_t *idle;
  uint64_t given, done; /* copies */
} pins_t;

mr_err_t mr__cuda_pins_create(mr_cuda_device_t *d, mr_diag_t *diag) {
  d->pins = calloc(MR_CUDA_QUEUES, sizeof *d->pins);
  if (!d->pins) return mr_no_memory(diag, "device %s", d->device->name);
  for (int i = 0; i < MR_CUDA_QUEUES; i++) {
    pthread_mutex_init(&d->pins[i].lock, NULL);
    pthread_mutex_init(&d->pins[i].settling, NULL);
  }
  return MR_OK;
}

static void pins_free(const mr_cuda_device_t *d, pinned_t *p) {
  for (pinned_t *next; p; p = next) {
    next = p->next;
    d->cu->cudaFreeHost(p->data);
    free(p);
  }
}

void mr__cuda_pins_destroy(mr_cuda_device_t *d) {
  for (int i = 0; d->pins && i < MR_CUDA_QUEUES; i++) {
    pins_free(d, d->pins[i].first), pins_free(d, d->pins[i].idle);
    pthread_mutex_destroy(&d->pins[i].lock);
    pthread_mutex_destroy(&d->pins[i].settling);
  }
  free(d->pins);
}

/* The smallest idle buffer that is large enough and not far too large, or NULL. */
static pinned_t *pins_idle(pins_t *q, size_t bytes) {
  pinned_t **best = NULL;
  for (pinned_t **p = &q->idle; *p; p = &(*p)->next)
    if ((*p)->room >= bytes && (!best || (*p)->room < (*best)->room)) best = p;
  if (!best || (*best)->room / 2 > bytes + 4096) return NULL;
  pinned_t *p = *best;
  *best = p->next;
  return p;
}

/* An idle buffer or a new one; NULL without memory. */
static pinned_t *pins_take(mr_cuda_device_t *d, pins_t *q, size_t bytes) {
  void *data = NULL;
  pthread_mutex_lock(&q->lock);
  pinned_t *p = pins_idle(q, bytes);
  pthread_mutex_unlock(&q->lock);
  if (p) return p;
  p = calloc(1, sizeof *p);
  if (p && d->cu->cudaMallocHost(&data, bytes) == cudaSuccess) {
    p->data = data, p->room = bytes;
    return p;
  }
  free(p);
  d->cu->cudaGetLastError();
  return NULL;
}

/* With the lock held. */
static void pins_append(pins_t *q, pinned_t *p, size_t bytes, void *to) {
  p->next = NULL, p->bytes = bytes, p->to = to;
  if (q->last)
    q->last->next = p;
  else
    q->first = p;
  q->last = p;
  q->given++;
}

static bool is_pinned_at(mr_cuda_device_t *d, const char *byte) {
  struct cudaPointerAttributes a = {.type = cudaMemoryTypeUnregistered};
  if (d->cu->cudaPointerGetAttributes(&a, byte) == cudaSuccess) return a.type == cudaMemoryTypeHost;
  d->cu->cudaGetLastError();
  return false;
}

/* Whole pages are pinned: memory of the heap may begin in the last page of an array that is
   pinned.  It cannot end in the first one of another, since arrays that are pinned begin there. */
static bool is_pinned(mr_cuda_device_t *d, const char *host, size_t bytes) {
  return bytes && is_pinned_at(d, host) && is_pinned_at(d, host + bytes - 1);
}

static cudaError_t copy_command(mr_cuda_device_t *d, int queue, void *to, const void *from,
                                size_t bytes, bool in) {
  return d->cu->cudaMemcpyAsync(to, from, bytes,
                                in ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost,
                                mr__cuda_queue(d, queue));
}

cudaError_t mr__cuda_pinned_copy(mr_cuda_device_t *d, int queue, void *to, const void *from,
                                 size_t bytes, bool in) {
  pins_t *q = &d->pins[queue];
  pinned_t *p = is_pinned(d, in ? from : to, bytes) ? NULL : pins_take(d, q, bytes);
  /* From and to other memory of the host, without a buffer, the driver itself waits. */
  if (!p) return copy_command(d, queue, to, from, bytes, in);
  if (in) memcpy(p->data, from, bytes);
  pthread_mutex_lock(&q->lock); /* so that the queue has the order of the commands */
  cudaError_t code = copy_command(d, queue, in ? to : p->data, in ? p->data : from, bytes, in);
  pins_append(q, p, bytes, in ? NULL : to);
  pthread_mutex_unlock(&q->lock);
  return code;
}

void mr__cuda_copy_later(const mr_device_t *device, void *to, const void *from, size_t bytes,
                         mr_copy_way_t way) {
  mr_cuda_device_t *d = mr__cuda_use(device);
  if (!bytes) return;
  if (way == MR_COPY_WITHIN) {
    mr__cuda_copy(device, to, from, bytes, way);
    return;
  }
  cudaError_t code = mr__cuda_pinned_copy(d, MR_CUDA_COMMANDS, to, from, bytes, way == MR_COPY_IN);
  if (code != cudaSuccess) mr__cuda_failed(d, code, "a copy");
}

uint64_t mr__cuda_pinned_mark(mr_cuda_device_t *d, int queue, cudaEvent_t event,
                              cudaError_t *code) {
  pins_t *q = &d->pins[queue];
  pthread_mutex_lock(&q->lock);
  *code = event ? d->cu->cudaEventRecord(event, mr__cuda_queue(d, queue)) : cudaSuccess;
  uint64_t given = q->given;
  pthread_mutex_unlock(&q->lock);
  return given;
}

/* Removes the copies up to number `until` from the queue and returns the first of them. */
static pinned_t *take_ended_pins(pins_t *q, uint64_t until) {
  pinned_t *first = NULL, **last = &first;
  pthread_mutex_lock(&q->lock);
  for (; q->first && q->done < until; q->done++) {
    pinned_t *p = q->first;
    if (!(q->first = p->next)) q->last = NULL;
    *last = p, last = &p->next;
    p->next = NULL;
  }
  pthread_mutex_unlock(&q->lock);
  return first;
}

/* A thread whose copies another one moves out waits for it. */
void mr__cuda_pinned_settle(mr_cuda_device_t *d, int queue, uint64_t until) {
  bool usable = mr__cuda_usable(d->device, NULL) == MR_OK;
  pins_t *q = &d->pins[queue];
  pthread_mutex_lock(&q->settling);
  for (pinned_t *p = take_ended_pins(q, until), *next; p; p = next) {
    next = p->next;
    if (p->to && usable) memcpy(p->to, p->data, p->bytes);
    if (p->to && !usable) memset(p->to, 0xFF, p->bytes);
    pthread_mutex_lock(&q->lock);
    p->next = q->idle, q->idle = p;
    pthread_mutex_unlock(&q->lock);
  }
  pthread_mutex_unlock(&q->settling);
}

/* ---- memory of the caller's ---- */

/* Ranges that share a page cannot both be pinned. */
bool mr__cuda_pin(const mr_device_t *device, void *host, size_t bytes) {
  mr_cuda_device_t *d = mr__cuda_use(device);
  enum { PAGE = 4096 };
  if (!bytes || (uintptr_t)host % PAGE) return false;
  if (d->cu->cudaHostRegister(host, bytes, cudaHostRegisterDefault) == cudaSuccess) return true;
  d->cu->cudaGetLastError();
  return false;
}

void mr__cuda_unpin(const mr_device_t *device, void *host) {
  mr_cuda_device_t *d = mr__cuda_use(device);
  if (d->cu->cudaHostUnregister(host) != cudaSuccess) d->cu->cudaGetLastError();
}
