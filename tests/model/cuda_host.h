/* A table in the place of CUDA's run-time library and of NVRTC, for tests without a GPU.  Kernels
   are compiled by the system's C++ compiler from the text that CUDA would compile, and run by loops
   over blocks and threads.  As on a GPU, commands wait in their stream until the host waits for
   them, and the host cannot touch the device's memory.  Each stream comes as far as the host's wait
   needs, so that a wait that is missing between two streams is seen; with a seed (host.seed) the
   other streams also run ahead, by numbers drawn from it.  The table checks what CUDA leaves
   undefined: every pointer that a command has lies in a block that has not been given back,
   launches keep to the device's limits, a copy that is done later is from or to pinned memory, and
   a thread that captures gives commands to the captured stream alone and waits for nothing.  What
   is captured is run when its graph is launched; a conditional node then reads what a kernel has
   set its handle to, once for each reading, and runs its bodies accordingly. */
#ifndef MR_TESTS_MODEL_CUDA_HOST_H
#define MR_TESTS_MODEL_CUDA_HOST_H

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/backends/cuda/api.h"
#include "model/backends/cuda/nvrtc.h"

#define HOST_CONTEXT ((size_t)200 << 20) /* bytes in use at first */
enum { HOST_ARGS = 1024, HOST_BLOCKS = 1 << 14, HOST_PAGE = 4096, HOST_STREAMS = 24 };

typedef struct host_block {
  char *base, *inside; /* what the host is given, without access, and the memory behind it */
  size_t bytes, pages;
  bool taken;      /* the stream that took it has come to that */
  bool given_back; /* by the host; its commands may be under way */
} host_block_t;

typedef struct host_kernel {
  void (*run)(void **arg, unsigned blocks, unsigned threads);
  int n;
  unsigned values; /* bit i: argument i is a number, no address */
  bool loaded;     /* its attributes were asked for */
} host_kernel_t;

typedef enum host_kind {
  HOST_COPY,
  HOST_KERNEL,
  HOST_TAKE,
  HOST_FREE,
  HOST_EVENT,
  HOST_WAIT,
  HOST_NODE
} host_kind_t;

typedef struct host_event {
  unsigned flags;
  int stream;             /* that it was recorded on */
  uint64_t records, done; /* how often it was recorded, and came */
  int64_t at;             /* host.clock when it came last */
} host_event_t;

/* What a handle points at.  Kernels write the first two (host_prelude). */
typedef struct host_handle {
  unsigned value, sets;           /* as it was set; how often since it was read */
  const struct host_graph *graph; /* that it was created for */
  int nodes;                      /* that use it */
} host_handle_t;

typedef struct host_command {
  struct host_command *next;
  host_kind_t kind;
  void *to; /* a copy's; the block that is taken or freed */
  host_event_t *event;
  uint64_t number; /* the record of the event that is waited for */
  const void *from;
  size_t bytes;
  const host_kernel_t *kernel;
  void *arg[HOST_ARGS];
  unsigned blocks, threads;
  host_handle_t *handle; /* a conditional node's */
  enum cudaGraphConditionalNodeType type;
  struct host_graph **body; /* [bodies], the node's own */
  unsigned bodies;
} host_command_t;

/* Captured commands, each of which waits for the one before. */
typedef struct host_graph {
  host_command_t *first, **last, *end; /* end: the last command */
  bool is_body, captured;              /* of a conditional node; it was captured, or is now */
  bool instantiated;                   /* and its instance lives */
  const struct host_graph *source;     /* an instance's graph */
} host_graph_t;

/* A stream under capture. */
typedef struct host_capture {
  cudaStream_t stream;
  host_graph_t *graph;
  host_command_t *after; /* what the next command waits for; NULL: it is the first */
} host_capture_t;
enum { HOST_CAPTURES = 16, HOST_HANDLES = 4096 };

static struct {
  pthread_mutex_t lock;
  host_block_t block[HOST_BLOCKS];
  size_t n_block;
  struct {
    char *data;
    size_t bytes;
  } pinned[1024];
  struct {
    host_command_t *first, **last; /* last: NULL before the first command */
  } queue[HOST_STREAMS];
  uint32_t seed; /* of what streams do that the host does not wait for; 0: nothing */
  int64_t clock; /* microseconds: a kernel takes 10, a copy 1 */
  int launches, copies_now, copies_later, compiled, events, synchronized;
  int taken_now;                         /* blocks of cudaMalloc */
  host_capture_t capture[HOST_CAPTURES]; /* [captures]: of one thread, the inner ones last */
  int captures;
  host_handle_t handle[HOST_HANDLES]; /* never used again */
  int handles;
  int branches, loops; /* conditional nodes that were made, of each type */
  int rounds;          /* of loops, and branches, that were run */
  int recorded;        /* launches and copies that were captured */
  int graphs, execs;   /* alive */
  int graph_launches, instantiated;
  int fail_launch;   /* the launch of this number is refused; 0: none is */
  int fail_recorded; /* the same for a captured one */
  /* The name of a call that is refused: one for graphs, cudaMallocAsync, or nvrtcCompileProgram,
     which then refuses to compile what sets conditions; "memory pools": the device has none.  NULL:
     none is. */
  const char *refuse;
#define HOST_CONTEXT ((size_t)200 << 20) /* bytes in use at first */
  size_t least_free;                     /* what cudaMemGetInfo says */
  uint64_t pool_holds; /* bytes that the pool is said to hold, all of them in use */
} host = {.lock = PTHREAD_MUTEX_INITIALIZER, .least_free = (size_t)1 << 33};

enum { HOST_EVENTS_KEPT = 4 };               /* of the open device: they stay */
static _Thread_local cudaError_t host_error; /* what cudaGetLastError returns */

static inline void host_need(bool good, const char *what) {
  if (good) return;
  fprintf(stderr, "the CUDA table: %s\n", what);
  abort();
}

static inline bool host_refuses(const char *call) {
  return host.refuse && !strcmp(host.refuse, call);
}

/* ---- memory ---- */

/* The block that has these bytes.  Where a block ends another may begin: an address alone asks for
   the block of the byte that is there. */
static inline host_block_t *host_find(const void *at, size_t bytes) {
  for (size_t i = 0; i < host.n_block; i++) {
    host_block_t *b = &host.block[i];
    const char *end = b->base + (b->bytes ? b->bytes : 1);
    if (b->base && (const char *)at >= b->base && (const char *)at + (bytes ? bytes : 1) <= end)
      return b;
  }
  return NULL;
}

/* The memory behind an address of the device. */
static inline void *host_inside(const void *at, size_t bytes) {
  const host_block_t *b = host_find(at, bytes);
  host_need(b, "a command uses memory after it was given back");
  host_need(b->taken, "a command uses memory before the stream that took it has come to that");
  return b->inside + ((const char *)at - b->base);
}

static inline bool host_page_is_pinned(const char *page) {
  for (size_t i = 0; i < sizeof host.pinned / sizeof *host.pinned; i++)
    if (host.pinned[i].data && host.pinned[i].data < page + HOST_PAGE &&
        page < host.pinned[i].data + host.pinned[i].bytes)
      return true;
  return false;
}

/* Whole pages are pinned, also those of which only a part was asked for. */
static inline bool host_is_pinned(const void *at, size_t bytes) {
  const char *page = (const char *)at - (uintptr_t)at % HOST_PAGE, *end = (const char *)at + bytes;
  while (page < end && host_page_is_pinned(page)) page += HOST_PAGE;
  return page >= end;
}

/* ---- commands ---- */

static inline void host_free_block(host_block_t *b) {
  munmap(b->base, b->pages), munmap(b->inside, b->pages);
  b->base = NULL;
}

static inline void host_copy(const host_command_t *c) {
  bool to_device = host_find(c->to, c->bytes), from_device = host_find(c->from, c->bytes);
  memcpy(to_device ? host_inside(c->to, c->bytes) : c->to,
         from_device ? host_inside(c->from, c->bytes) : c->from, c->bytes);
}

static inline void host_graph_free(host_graph_t *g);

static inline void host_command_free(host_command_t *c) {
  for (unsigned i = 0; i < c->bodies; i++) host_graph_free(c->body[i]);
  free(c->body);
  free(c);
}

static inline bool host_is_number(const host_kernel_t *k, int argument) {
  return argument < 32 && (k->values >> argument & 1);
}

static inline void host_do_kernel(const host_command_t *c) {
  void *arg[HOST_ARGS];
  for (int k = 0; k < c->kernel->n; k++)
    arg[k] = host_is_number(c->kernel, k) ? c->arg[k] : host_inside(c->arg[k], 0);
  c->kernel->run(arg, c->blocks, c->threads);
}

static inline unsigned host_condition(host_handle_t *h) {
  host_need(h->sets == 1, "a condition is read that was not set once since it was read last");
  h->sets = 0;
  return h->value;
}

static inline void host_do_body(const host_graph_t *g);

static inline void host_do_node(const host_command_t *c) {
  if (c->type == cudaGraphCondTypeWhile) {
    int most = host.rounds + (1 << 20);
    for (; host_condition(c->handle); host.rounds++) {
      host_need(host.rounds < most, "a loop does not end");
      host_do_body(c->body[0]);
    }
    return;
  }
  unsigned j = host_condition(c->handle);
  if (j < c->bodies) host_do_body(c->body[j]), host.rounds++;
}

/* What nothing has written is NaN. */
static inline void host_do_take(host_block_t *b) {
  memset(b->inside, 0xFF, b->pages);
  b->taken = true;
}

static inline void host_do(const host_command_t *c) {
  host.clock += c->kind == HOST_KERNEL ? 10 : c->kind == HOST_COPY;
  switch (c->kind) {
    case HOST_COPY: host_copy(c); break;
    case HOST_KERNEL: host_do_kernel(c); break;
    case HOST_TAKE: host_do_take(c->to); break;
    case HOST_FREE: host_free_block(c->to); break;
    case HOST_EVENT: c->event->done++, c->event->at = host.clock; break;
    case HOST_WAIT: break; /* it has come: host_is_ready */
    case HOST_NODE: host_do_node(c); break;
  }
}

static inline void host_do_body(const host_graph_t *g) {
  for (const host_command_t *c = g->first; c; c = c->next) host_do(c);
}

/* Whether the next command of a stream can be done: there is one, and no event that it waits for is
   still to come. */
static inline bool host_is_ready(int stream) {
  const host_command_t *c = host.queue[stream].first;
  return c && (c->kind != HOST_WAIT || c->event->done >= c->number);
}

static inline void host_do_first(int stream) {
  host_command_t *c = host.queue[stream].first;
  if (!(host.queue[stream].first = c->next)) host.queue[stream].last = &host.queue[stream].first;
  host_do(c);
  host_command_free(c);
}

/* Does the next command of a stream, or the next of those that it waits for. */
static inline void host_progress(int stream) {
  for (int turns = 0; !host_is_ready(stream); turns++) {
    host_need(host.queue[stream].first && turns < HOST_STREAMS, "streams wait for each other");
    stream = host.queue[stream].first->event->stream;
  }
  host_do_first(stream);
}

static inline void host_drain(int stream) {
  while (host.queue[stream].first) host_progress(stream);
}

/* Does at most `most` commands towards an event. */
static inline bool host_advance(const host_event_t *e, long most) {
  while (e->done < e->records && most-- != 0) host_progress(e->stream);
  return e->done == e->records;
}

static inline unsigned host_random(void) {
  return (host.seed = host.seed * 1664525 + 1013904223) >> 16;
}

/* What the device does while the host does something else. */
static inline void host_drift(void) {
  for (int i = 0; host.seed && i < HOST_STREAMS; i++)
    for (unsigned n = host_random() % 4 ? 0 : host_random() % 256; n && host_is_ready(i); n--)
      host_do_first(i);
}

/* Their addresses are the streams: the first is of commands, the next two of copies beside them;
   the backend captures with others.  The last four are for tests. */
static int host_streams[HOST_STREAMS];
enum { HOST_SPARE = HOST_STREAMS - 4 };
static _Thread_local bool host_captures; /* the calling thread does */

static inline int host_number(cudaStream_t s) { return (int)((int *)s - host_streams); }

/* The innermost capture. */
static inline host_capture_t *host_capture_now(void) { return &host.capture[host.captures - 1]; }

/* Whether the calling thread may give commands to a stream: that of its capture alone, if it
   captures, and else any that is not captured. */
static inline bool host_may_give(cudaStream_t s) {
  if (host_captures) return s == host_capture_now()->stream;
  for (int i = 0; i < host.captures; i++)
    if (host.capture[i].stream == s) return false;
  return host_number(s) >= 0 && host_number(s) < HOST_STREAMS;
}

static inline void host_graph_append(host_graph_t *g, host_command_t *c) {
  *g->last = g->end = c, g->last = &c->next;
}

/* Appends to the stream's commands, or to what is captured of it. */
static inline host_command_t *host_add(host_kind_t kind, cudaStream_t s) {
  host_command_t *c = calloc(1, sizeof *c);
  host_need(c, "no memory for a command");
  c->kind = kind;
  if (!host_captures) {
    int i = host_number(s);
    if (!host.queue[i].last) host.queue[i].last = &host.queue[i].first;
    *host.queue[i].last = c, host.queue[i].last = &c->next;
    return c;
  }
  host_capture_t *now = host_capture_now();
  host_need(kind == HOST_COPY || kind == HOST_KERNEL || kind == HOST_WAIT,
            "a command that a graph cannot have");
  host_need(now->after == now->graph->end, "a captured command does not wait for the one before");
  host_graph_append(now->graph, c);
  now->after = c;
  return c;
}

/* ---- the run-time library ---- */

static inline cudaError_t host_version(int *v) { return *v = 13000, cudaSuccess; }
static inline cudaError_t host_count(int *n) { return *n = 2, cudaSuccess; }

static inline cudaError_t host_properties(struct cudaDeviceProp *p, int device) {
  memset(p, 0, sizeof *p);
  strcpy(p->name, "this machine's processors");
  p->major = 9, p->multiProcessorCount = 2;
  p->memoryPoolsSupported = !host_refuses("memory pools");
  p->totalGlobalMem = (size_t)1 << 33;
  return cudaSuccess;
}

static inline cudaError_t host_set_device(int device) {
  return device < 2 ? cudaSuccess : cudaErrorInvalidDevice;
}
static inline const char *host_error_name(cudaError_t e) {
  return e == cudaErrorLaunchFailure  ? "cudaErrorLaunchFailure"
         : e == cudaErrorNotSupported ? "cudaErrorNotSupported"
                                      : "cudaErrorMemoryAllocation";
}
static inline const char *host_error_text(cudaError_t e) { return "as the test asked"; }
static inline cudaError_t host_last_error(void) {
  cudaError_t e = host_error;
  return host_error = cudaSuccess, e;
}

static inline cudaError_t host_stream_create(cudaStream_t *s, unsigned flags) {
  static int n;
  host_need(!host_captures, "a thread that captures makes a stream");
  host_need(n < HOST_SPARE, "too many streams");
  host_need(flags == cudaStreamNonBlocking, "a stream that waits for the default one");
  *s = (cudaStream_t)&host_streams[n++];
  return cudaSuccess;
}

static inline cudaError_t host_stream_destroy(cudaStream_t s) {
  pthread_mutex_lock(&host.lock);
  host_need(host_may_give(s), "a stream that is captured, or none, is destroyed");
  host_need(!host.queue[host_number(s)].first, "a stream with commands under way is destroyed");
  pthread_mutex_unlock(&host.lock);
  return cudaSuccess;
}

static inline void host_enter(cudaStream_t s) {
  pthread_mutex_lock(&host.lock);
  host_need(host_may_give(s), "a command for another stream");
  host_need(host_error != cudaErrorNotReady, "a command finds the answer of a question before it");
  host_drift();
}

/* Before a call that waits, or takes or gives back memory. */
static inline void host_enter_plain(void) {
  host_need(!host_captures, "a thread that captures makes a call that may not be captured");
  pthread_mutex_lock(&host.lock);
  host_drift();
}

static inline cudaError_t host_leave(cudaError_t e) {
  pthread_mutex_unlock(&host.lock);
  if (e != cudaSuccess) host_error = e;
  return e;
}

static inline cudaError_t host_stream_synchronize(cudaStream_t s) {
  host_enter_plain();
  host_need(host_may_give(s), "a wait for a stream that is captured");
  host.synchronized++;
  host_drain(host_number(s));
  return host_leave(cudaSuccess);
}

static inline cudaError_t host_pool(cudaMemPool_t *p, int device) {
  return *p = (cudaMemPool_t)&host, cudaSuccess;
}
static inline cudaError_t host_pool_set(cudaMemPool_t p, enum cudaMemPoolAttr a, void *v) {
  return cudaSuccess;
}
static inline cudaError_t host_pool_get(cudaMemPool_t p, enum cudaMemPoolAttr a, void *v) {
  return *(uint64_t *)v = host.pool_holds, cudaSuccess;
}

/* The lock is held.  NULL without memory. */
static inline host_block_t *host_block_new(size_t bytes) {
  size_t pages = (bytes + HOST_PAGE - 1) / HOST_PAGE * HOST_PAGE;
  if (bytes > host.least_free) return NULL;
  int fd = memfd_create("device", 0);
  host_need(fd >= 0 && !ftruncate(fd, (off_t)pages), "no memory file");
  host_block_t b = {.bytes = bytes, .pages = pages};
  b.base = mmap(NULL, pages, PROT_NONE, MAP_SHARED, fd, 0);
  b.inside = mmap(NULL, pages, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  host_need(b.base != MAP_FAILED && b.inside != MAP_FAILED, "no memory");
  close(fd);
  size_t at = 0;
  while (at < host.n_block && host.block[at].base) at++;
  host_need(at < HOST_BLOCKS, "too many blocks");
  host.block[at] = b;
  if (at == host.n_block) host.n_block++;
  return &host.block[at];
}

static inline cudaError_t host_malloc(void **data, size_t bytes, cudaStream_t s) {
  host_need(s == (cudaStream_t)&host_streams[0], "memory of another stream");
  host_enter_plain();
  if (host_refuses("cudaMallocAsync")) return host_leave(cudaErrorNotSupported);
  host_need(!host_refuses("memory pools"), "memory of a pool that is not there");
  host_block_t *b = host_block_new(bytes);
  if (!b) return host_leave(cudaErrorMemoryAllocation);
  *data = b->base;
  host_add(HOST_TAKE, s)->to = b;
  return host_leave(cudaSuccess);
}

/* Memory that every stream may use at once. */
static inline cudaError_t host_malloc_now(void **data, size_t bytes) {
  host_enter_plain();
  host_block_t *b = host_block_new(bytes);
  if (!b) return host_leave(cudaErrorMemoryAllocation);
  *data = b->base;
  host_do_take(b);
  host.taken_now++;
  return host_leave(cudaSuccess);
}

/* CUDA may wait for commands that use the block, and need not. */
static inline cudaError_t host_free_now(void *data) {
  host_enter_plain();
  host_block_t *b = host_find(data, 1);
  host_need(b && b->base == data && !b->given_back, "what is freed is no block");
  host_free_block(b);
  return host_leave(cudaSuccess);
}

static inline cudaError_t host_free(void *data, cudaStream_t s) {
  host_enter_plain();
  host_block_t *b = host_find(data, 1);
  host_need(b && b->base == data && !b->given_back, "what is freed is no block");
  b->given_back = true;
  host_add(HOST_FREE, s)->to = b;
  return host_leave(cudaSuccess);
}

static inline cudaError_t host_memory(size_t *left, size_t *all) {
  *left = host.least_free, *all = ((size_t)1 << 33) + HOST_CONTEXT;
  return cudaSuccess;
}

static inline cudaError_t host_malloc_pinned(void **data, size_t bytes) {
  host_enter_plain();
  size_t i = 0;
  while (i < sizeof host.pinned / sizeof *host.pinned && host.pinned[i].data) i++;
  host_need(i < sizeof host.pinned / sizeof *host.pinned, "too much pinned memory");
  *data = host.pinned[i].data =
      aligned_alloc(HOST_PAGE, (bytes + HOST_PAGE - 1) / HOST_PAGE * HOST_PAGE);
  host.pinned[i].bytes = bytes;
  return host_leave(cudaSuccess);
}

static inline void host_unpin(const void *data) {
  for (int s = 0; s < HOST_STREAMS; s++)
    for (const host_command_t *c = host.queue[s].first; c; c = c->next)
      host_need(c->kind != HOST_COPY || (c->to != data && c->from != data),
                "pinned memory is freed before a copy that uses it is done");
  for (size_t i = 0; i < sizeof host.pinned / sizeof *host.pinned; i++)
    if (host.pinned[i].data == data) host.pinned[i].data = NULL;
}

static inline cudaError_t host_free_pinned(void *data) {
  host_enter_plain();
  host_unpin(data);
  free(data);
  return host_leave(cudaSuccess);
}

/* Pins the caller's memory. */
static inline cudaError_t host_register(void *data, size_t bytes, unsigned flags) {
  host_enter_plain();
  size_t i = 0;
  while (i < sizeof host.pinned / sizeof *host.pinned && host.pinned[i].data) i++;
  host_need(i < sizeof host.pinned / sizeof *host.pinned, "too much pinned memory");
  host_need(!((uintptr_t)data % HOST_PAGE), "pinned memory shares a page");
  host.pinned[i].data = data, host.pinned[i].bytes = bytes;
  return host_leave(cudaSuccess);
}

static inline cudaError_t host_unregister(void *data) {
  host_enter_plain();
  host_need(host_is_pinned(data, 1), "what is unpinned was not pinned");
  host_unpin(data);
  return host_leave(cudaSuccess);
}

static inline cudaError_t host_attributes(struct cudaPointerAttributes *a, const void *at) {
  pthread_mutex_lock(&host.lock);
  a->type = host_is_pinned(at, 1) ? cudaMemoryTypeHost
            : host_find(at, 1)    ? cudaMemoryTypeDevice
                                  : cudaMemoryTypeUnregistered;
  return host_leave(cudaSuccess);
}

/* A copy from or to memory that is not pinned is done before the call returns. */
static inline cudaError_t host_copy_async(void *to, const void *from, size_t bytes,
                                          enum cudaMemcpyKind kind, cudaStream_t s) {
  host_enter(s);
  bool in = kind == cudaMemcpyHostToDevice, out = kind == cudaMemcpyDeviceToHost;
  const host_block_t *dest = host_find(to, bytes), *source = host_find(from, bytes);
  host_need(!dest == out && !source == in, "a copy's direction does not fit its addresses");
  host_need((out || !dest->given_back) && (in || !source->given_back), "a copy after a free");
  host_need(!host_captures || (!in && !out), "a copy from or to the host is captured");
  host_command_t *c = host_add(HOST_COPY, s);
  c->to = to, c->from = from, c->bytes = bytes;
  host.recorded += host_captures;
  bool now = (in && !host_is_pinned(from, bytes)) || (out && !host_is_pinned(to, bytes));
  host.copies_now += now, host.copies_later += !now && (in || out);
  if (now) host_drain(host_number(s));
  return host_leave(cudaSuccess);
}

static inline cudaError_t host_event_create(cudaEvent_t *e, unsigned flags) {
  host_event_t *own = calloc(1, sizeof *own);
  own->flags = flags;
  *e = (cudaEvent_t)own;
  host.events++;
  return cudaSuccess;
}
static inline cudaError_t host_event_destroy(cudaEvent_t e) {
  const host_event_t *own = (host_event_t *)e;
  host_need(own->done == own->records, "an event is destroyed before it came");
  free(e);
  host.events--;
  return cudaSuccess;
}
static inline cudaError_t host_event_record(cudaEvent_t e, cudaStream_t s) {
  host_event_t *own = (host_event_t *)e;
  host_enter_plain();
  host_need(host_may_give(s), "an event for a stream that is captured");
  host_need(!own->records || own->stream == host_number(s), "an event of two streams");
  own->stream = host_number(s), own->records++;
  host_add(HOST_EVENT, s)->event = own;
  return host_leave(cudaSuccess);
}
static inline cudaError_t host_event_query(cudaEvent_t e) {
  host_enter_plain();
  bool done = host_advance((host_event_t *)e, 100); /* it is busy for a while */
  return host_leave(done ? cudaSuccess : cudaErrorNotReady);
}
static inline cudaError_t host_event_synchronize(cudaEvent_t e) {
  host_need(((host_event_t *)e)->flags & cudaEventBlockingSync, "a wait that spins");
  host_enter_plain();
  host_advance((host_event_t *)e, -1);
  return host_leave(cudaSuccess);
}
static inline cudaError_t host_event_elapsed(float *ms, cudaEvent_t from, cudaEvent_t to) {
  const host_event_t *a = (host_event_t *)from, *b = (host_event_t *)to;
  host_need(!((a->flags | b->flags) & cudaEventDisableTiming), "an event without a time");
  host_need(a->records && a->done == a->records && b->records && b->done == b->records,
            "the time of an event that has not come");
  *ms = (float)(b->at - a->at) / 1000;
  return cudaSuccess;
}
/* A graph waits for what was recorded when it is launched; conditional bodies have no such node. */
static inline cudaError_t host_stream_wait(cudaStream_t s, cudaEvent_t e, unsigned flags) {
  host_enter(s);
  host_need(flags == (host_captures ? cudaEventWaitExternal : cudaEventWaitDefault),
            "a wait for an event outside of the graph, or the flag for it without a capture");
  host_need(!host_captures || !host_capture_now()->graph->is_body, "a conditional body waits");
  host_command_t *c = host_add(HOST_WAIT, s);
  c->event = (host_event_t *)e, c->number = c->event->records;
  return host_leave(cudaSuccess);
}

/* An image is the number of bytes of a shared object, and these bytes.  One of another kind is
   refused as a driver does. */
enum { HOST_IMAGE = 16 }; /* bytes before the object */
static const char host_magic[8] = "hostcuda";

static inline cudaError_t host_load(cudaLibrary_t *library, const void *image,
                                    enum cudaJitOption *o, void **ov, unsigned n,
                                    enum cudaLibraryOption *l, void **lv, unsigned m) {
  char path[] = "/tmp/mr-cuda-XXXXXX";
  size_t bytes;
  host_need(!host_captures, "a library is loaded while its thread captures");
  if (memcmp(image, host_magic, sizeof host_magic) != 0) return cudaErrorInvalidKernelImage;
  memcpy(&bytes, (const char *)image + 8, sizeof bytes);
  int fd = mkstemp(path);
  host_need(fd >= 0 && write(fd, (const char *)image + HOST_IMAGE, bytes) == (ssize_t)bytes &&
                close(fd) == 0,
            "a file in /tmp");
  void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  host_need(lib, dlerror());
  unlink(path);
  *library = (cudaLibrary_t)lib;
  return cudaSuccess;
}

static inline cudaError_t host_unload(cudaLibrary_t library) {
  host_need(!dlclose(library), "a library that is not loaded");
  return cudaSuccess;
}

static inline cudaError_t host_get_kernel(cudaKernel_t *kernel, cudaLibrary_t library,
                                          const char *name) {
  char run[32], n[32], values[32];
  host_kernel_t *k = calloc(1, sizeof *k);
  snprintf(run, sizeof run, "run_%s", name), snprintf(n, sizeof n, "n_%s", name);
  snprintf(values, sizeof values, "values_%s", name);
  void *at = dlsym(library, run), *count = dlsym(library, n), *bits = dlsym(library, values);
  host_need(k && at && count && bits, "a kernel is not there");
  memcpy(&k->run, &at, sizeof at);
  k->n = *(int *)count, k->values = *(unsigned *)bits;
  *kernel = (cudaKernel_t)k;
  return cudaSuccess;
}

static inline cudaError_t host_get_attributes(struct cudaFuncAttributes *a, const void *f) {
  host_need(!host_captures, "a kernel is loaded while its thread captures");
  memset(a, 0, sizeof *a);
  ((host_kernel_t *)(uintptr_t)f)->loaded = true;
  return cudaSuccess;
}

static inline void host_check_block(const void *at) {
  const host_block_t *b = host_find(at, 0);
  host_need(b && !b->given_back, "a command's address lies in no block of the device");
}

static inline void host_check_kernel(const host_command_t *c) {
  for (int i = 0; i < c->kernel->n; i++)
    if (!host_is_number(c->kernel, i)) host_check_block(c->arg[i]);
}

static inline cudaError_t host_launch(const void *f, dim3 grid, dim3 block, void **arg,
                                      size_t shared, cudaStream_t s) {
  const host_kernel_t *k = f;
  host_enter(s);
  host_need(grid.x >= 1 && grid.x <= 0x7FFFFFFF && grid.y == 1 && grid.z == 1, "a grid's size");
  host_need(block.x >= 1 && block.x <= 1024 && block.y == 1 && block.z == 1, "a block's size");
  host_need(k->n <= HOST_ARGS, "too many arguments");
  host_need(k->loaded, "a kernel is loaded by its first start");
  if (host_captures ? ++host.recorded == host.fail_recorded : ++host.launches == host.fail_launch)
    return host_leave(cudaErrorLaunchFailure);
  host_command_t *c = host_add(HOST_KERNEL, s);
  c->kernel = k, c->blocks = grid.x, c->threads = block.x;
  for (int i = 0; i < k->n; i++) c->arg[i] = *(void **)arg[i];
  host_check_kernel(c);
  return host_leave(cudaSuccess);
}

/* ---- graphs ---- */

static inline host_graph_t *host_graph_new(void) {
  host_graph_t *g = calloc(1, sizeof *g);
  host_need(g, "no memory for a graph");
  return g->last = &g->first, g;
}

static inline void host_graph_free(host_graph_t *g) {
  for (int i = 0; i < host.handles; i++)
    if (host.handle[i].graph == g) host.handle[i].graph = NULL;
  for (host_command_t *c; g && (c = g->first);) {
    g->first = c->next;
    host_command_free(c);
  }
  free(g);
}

static inline void host_capture_push(cudaStream_t s, host_graph_t *g) {
  host_need(s != (cudaStream_t)&host_streams[0], "the stream of commands is captured");
  for (int i = 0; i < host.captures; i++)
    host_need(host.capture[i].stream != s, "a stream is captured twice at once");
  host_need(host.captures < HOST_CAPTURES, "too many captures");
  host.capture[host.captures++] = (host_capture_t){.stream = s, .graph = g};
  g->captured = true;
}

static inline cudaError_t host_begin_capture(cudaStream_t s, enum cudaStreamCaptureMode mode) {
  host_need(mode == cudaStreamCaptureModeThreadLocal, "other threads are refused meanwhile");
  host_enter_plain();
  host_need(!host.captures, "two captures at once");
  if (host_refuses("cudaStreamBeginCapture")) return host_leave(cudaErrorMemoryAllocation);
  host_capture_push(s, host_graph_new());
  host_captures = true;
  return host_leave(cudaSuccess);
}

/* Of a conditional node's body alone, which is empty, by the thread that captures around it. */
static inline cudaError_t host_begin_body(cudaStream_t s, cudaGraph_t graph,
                                          const cudaGraphNode_t *after,
                                          const cudaGraphEdgeData *edge, size_t n,
                                          enum cudaStreamCaptureMode mode) {
  host_graph_t *g = (host_graph_t *)graph;
  host_need(mode == cudaStreamCaptureModeThreadLocal, "other threads are refused meanwhile");
  host_need(host_captures, "a body is captured outside of its graph's capture");
  pthread_mutex_lock(&host.lock);
  host_need(g->is_body && !g->captured && !after && !n, "what is captured is no new body");
  if (host_refuses("cudaStreamBeginCaptureToGraph")) return host_leave(cudaErrorNotSupported);
  host_capture_push(s, g);
  return host_leave(cudaSuccess);
}

static inline cudaError_t host_end_capture(cudaStream_t s, cudaGraph_t *graph) {
  host_enter(s);
  host_need(host_captures && host.captures, "a capture ends that has not begun");
  const host_capture_t *now = host_capture_now();
  host_graph_t *g = now->graph;
  host_need(now->after == g->end, "a capture ends whose stream does not wait for its last command");
  host.captures--, host_captures = host.captures > 0;
  *graph = NULL;
  if (host_refuses("cudaStreamEndCapture")) {
    if (!g->is_body) host_graph_free(g);
    return host_leave(cudaErrorMemoryAllocation);
  }
  *graph = (cudaGraph_t)g;
  host.graphs += !g->is_body;
  return host_leave(cudaSuccess);
}

static inline cudaError_t host_capture_info(cudaStream_t s, enum cudaStreamCaptureStatus *status,
                                            unsigned long long *id, cudaGraph_t *graph,
                                            const cudaGraphNode_t **after,
                                            const cudaGraphEdgeData **edge, size_t *n) {
  host_enter(s);
  if (host_refuses("cudaStreamGetCaptureInfo")) return host_leave(cudaErrorNotSupported);
  host_capture_t *now = host_capture_now();
  *status = cudaStreamCaptureStatusActive, *graph = (cudaGraph_t)now->graph;
  *after = (const cudaGraphNode_t *)&now->after, *edge = NULL, *n = now->after != NULL;
  return host_leave(cudaSuccess);
}

static inline cudaError_t host_capture_after(cudaStream_t s, cudaGraphNode_t *after,
                                             const cudaGraphEdgeData *edge, size_t n,
                                             unsigned flags) {
  host_enter(s);
  host_need(n == 1 && flags == cudaStreamSetCaptureDependencies, "what a stream waits for");
  if (host_refuses("cudaStreamUpdateCaptureDependencies")) {
    host_capture_now()->after = host_capture_now()->graph->end; /* so that the capture can end */
    return host_leave(cudaErrorNotSupported);
  }
  host_capture_now()->after = (host_command_t *)after[0];
  return host_leave(cudaSuccess);
}

static inline cudaError_t host_handle_create(cudaGraphConditionalHandle *handle, cudaGraph_t graph,
                                             unsigned value, unsigned flags) {
  pthread_mutex_lock(&host.lock);
  host_need(host_captures && (host_graph_t *)graph == host_capture_now()->graph,
            "a handle is created for another graph than the one that is captured");
  host_need(!flags, "a default value");
  if (host_refuses("cudaGraphConditionalHandleCreate")) return host_leave(cudaErrorNotSupported);
  host_need(host.handles < HOST_HANDLES, "too many handles");
  host_handle_t *h = &host.handle[host.handles++];
  h->graph = (host_graph_t *)graph;
  *handle = (cudaGraphConditionalHandle)(uintptr_t)h;
  return host_leave(cudaSuccess);
}

static inline void host_check_node(const host_capture_t *now, const host_graph_t *g,
                                   const cudaGraphNode_t *after, size_t n,
                                   const struct cudaGraphNodeParams *p) {
  const struct cudaConditionalNodeParams *c = &p->conditional;
  const host_handle_t *h = (const host_handle_t *)(uintptr_t)c->handle;
  host_need(g == now->graph, "a node is added to another graph than the one that is captured");
  host_need(n == (g->end != NULL) && (!n || (host_command_t *)*after == g->end),
            "a node does not wait for the command before");
  host_need(p->type == cudaGraphNodeTypeConditional && !p->reserved0[0] && !p->reserved2,
            "a node of another type");
  host_need(h >= host.handle && h < host.handle + host.handles && h->graph == g && !h->nodes,
            "a handle that is another graph's, or has a node");
  host_need(c->type == cudaGraphCondTypeWhile ? c->size == 1
                                              : c->type == cudaGraphCondTypeSwitch && c->size > 0,
            "a conditional node's number of bodies");
}

static inline cudaError_t host_add_node(cudaGraphNode_t *node, cudaGraph_t graph,
                                        const cudaGraphNode_t *after, const cudaGraphEdgeData *edge,
                                        size_t n, struct cudaGraphNodeParams *p) {
  struct cudaConditionalNodeParams *c = &p->conditional;
  pthread_mutex_lock(&host.lock);
  host_need(host_captures, "a node is added outside of a capture");
  host_check_node(host_capture_now(), (host_graph_t *)graph, after, n, p);
  if (host_refuses("cudaGraphAddNode")) return host_leave(cudaErrorNotSupported);
  host_command_t *own = calloc(1, sizeof *own);
  host_need(own && (own->body = calloc(c->size, sizeof *own->body)), "no memory for a node");
  own->kind = HOST_NODE, own->type = c->type, own->bodies = c->size;
  own->handle = (host_handle_t *)(uintptr_t)c->handle;
  own->handle->nodes++;
  for (unsigned i = 0; i < c->size; i++) {
    own->body[i] = host_graph_new();
    own->body[i]->is_body = true;
  }
  host_graph_append((host_graph_t *)graph, own);
  host.branches += c->type == cudaGraphCondTypeSwitch,
      host.loops += c->type == cudaGraphCondTypeWhile;
  c->phGraph_out = (cudaGraph_t *)own->body;
  *node = (cudaGraphNode_t)own;
  return host_leave(cudaSuccess);
}

/* Puts copies of all commands of g, and of their bodies, behind `last`, which is then their end. */
static inline void host_graph_copy(const host_graph_t *g, host_command_t ***last) {
  for (const host_command_t *c = g->first; c; c = c->next) {
    host_command_t *own = malloc(sizeof *own);
    host_need(own, "no memory for a command");
    *own = *c, own->next = NULL;
    if (own->kind == HOST_WAIT) own->number = own->event->records;
    if (c->bodies) own->body = calloc(c->bodies, sizeof *own->body);
    for (unsigned i = 0; i < c->bodies; i++) {
      host_need(c->body[i]->captured, "a body was not captured");
      own->body[i] = host_graph_new();
      own->body[i]->captured = true;
      host_graph_copy(c->body[i], &own->body[i]->last);
    }
    **last = own, *last = &own->next;
  }
}

static inline bool host_has_node(const host_graph_t *g) {
  for (const host_command_t *c = g->first; c; c = c->next)
    if (c->kind == HOST_NODE) return true;
  return false;
}

static inline cudaError_t host_instantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                           unsigned long long flags) {
  host_graph_t *source = (host_graph_t *)graph;
  host_enter_plain();
  for (int i = 0; i < host.handles; i++)
    host_need(host.handle[i].graph != source || host.handle[i].nodes == 1,
              "a handle of the graph has no node");
  if (host_refuses("cudaGraphInstantiate")) return host_leave(cudaErrorMemoryAllocation);
  host_need(!source->instantiated, "a graph's second instance");
  host_graph_t *g = host_graph_new();
  host_graph_copy(source, &g->last);
  if (host_has_node(source)) source->instantiated = true, g->source = source;
  *exec = (cudaGraphExec_t)g;
  host.execs++, host.instantiated++;
  return host_leave(cudaSuccess);
}

static inline cudaError_t host_graph_destroy(cudaGraph_t graph) {
  host_graph_t *g = (host_graph_t *)graph;
  host_need(!g->is_body, "a body is destroyed that is its node's");
  host_need(!g->instantiated, "a graph with conditional nodes is destroyed before its instance");
  host_graph_free(g);
  host.graphs--;
  return cudaSuccess;
}

static inline cudaError_t host_exec_destroy(cudaGraphExec_t exec) {
  host_graph_t *g = (host_graph_t *)exec;
  if (g->source) ((host_graph_t *)(uintptr_t)g->source)->instantiated = false;
  host_graph_free(g);
  host.execs--;
  return cudaSuccess;
}

/* The memory of all commands, in bodies too, must be there. */
static inline void host_check_commands(const host_graph_t *g) {
  for (const host_command_t *c = g->first; c; c = c->next) {
    if (c->kind == HOST_KERNEL) host_check_kernel(c);
    if (c->kind == HOST_COPY) host_check_block(c->to), host_check_block(c->from);
    for (unsigned i = 0; i < c->bodies; i++) host_check_commands(c->body[i]);
  }
}

static inline cudaError_t host_graph_launch(cudaGraphExec_t exec, cudaStream_t s) {
  const host_graph_t *g = (const host_graph_t *)exec;
  host_enter(s);
  host_need(!host_captures, "a graph is launched while its thread captures");
  if (host_refuses("cudaGraphLaunch")) return host_leave(cudaErrorMemoryAllocation);
  host_check_commands(g);
  int i = host_number(s);
  if (!host.queue[i].last) host.queue[i].last = &host.queue[i].first;
  host_graph_copy(g, &host.queue[i].last);
  host.graph_launches++;
  return host_leave(cudaSuccess);
}

static const mr_cuda_api_t host_api = {.cudaDriverGetVersion = host_version,
                                       .cudaRuntimeGetVersion = host_version,
                                       .cudaGetDeviceCount = host_count,
                                       .cudaGetDeviceProperties = host_properties,
                                       .cudaSetDevice = host_set_device,
                                       .cudaGetErrorName = host_error_name,
                                       .cudaGetErrorString = host_error_text,
                                       .cudaGetLastError = host_last_error,
                                       .cudaStreamCreateWithFlags = host_stream_create,
                                       .cudaStreamDestroy = host_stream_destroy,
                                       .cudaStreamSynchronize = host_stream_synchronize,
                                       .cudaStreamWaitEvent = host_stream_wait,
                                       .cudaStreamBeginCapture = host_begin_capture,
                                       .cudaStreamEndCapture = host_end_capture,
                                       .cudaStreamGetCaptureInfo = host_capture_info,
                                       .cudaStreamBeginCaptureToGraph = host_begin_body,
                                       .cudaStreamUpdateCaptureDependencies = host_capture_after,
                                       .cudaGraphConditionalHandleCreate = host_handle_create,
                                       .cudaGraphAddNode = host_add_node,
                                       .cudaGraphInstantiate = host_instantiate,
                                       .cudaGraphLaunch = host_graph_launch,
                                       .cudaGraphDestroy = host_graph_destroy,
                                       .cudaGraphExecDestroy = host_exec_destroy,
                                       .cudaDeviceGetDefaultMemPool = host_pool,
                                       .cudaMemPoolSetAttribute = host_pool_set,
                                       .cudaMemPoolGetAttribute = host_pool_get,
                                       .cudaMallocAsync = host_malloc,
                                       .cudaFreeAsync = host_free,
                                       .cudaMalloc = host_malloc_now,
                                       .cudaFree = host_free_now,
                                       .cudaMemGetInfo = host_memory,
                                       .cudaMallocHost = host_malloc_pinned,
                                       .cudaFreeHost = host_free_pinned,
                                       .cudaHostRegister = host_register,
                                       .cudaHostUnregister = host_unregister,
                                       .cudaPointerGetAttributes = host_attributes,
                                       .cudaMemcpyAsync = host_copy_async,
                                       .cudaEventCreateWithFlags = host_event_create,
                                       .cudaEventRecord = host_event_record,
                                       .cudaEventElapsedTime = host_event_elapsed,
                                       .cudaEventQuery = host_event_query,
                                       .cudaEventSynchronize = host_event_synchronize,
                                       .cudaEventDestroy = host_event_destroy,
                                       .cudaLibraryLoadData = host_load,
                                       .cudaLibraryUnload = host_unload,
                                       .cudaLibraryGetKernel = host_get_kernel,
                                       .cudaFuncGetAttributes = host_get_attributes,
                                       .cudaLaunchKernel = host_launch};

/* ---- the compiler ---- */

typedef struct host_program {
  char *text, path[64];
} host_program_t;

static inline nvrtcResult host_archs_n(int *n) { return *n = 2, NVRTC_SUCCESS; }
static inline nvrtcResult host_archs(int *a) { return a[0] = 80, a[1] = 90, NVRTC_SUCCESS; }
static inline const char *host_nvrtc_text(nvrtcResult r) { return "as the test asked"; }

static inline nvrtcResult host_create(nvrtcProgram *p, const char *text, const char *name, int n,
                                      const char *const *h, const char *const *i) {
  host_program_t *q = calloc(1, sizeof *q);
  q->text = strdup(text);
  *p = (nvrtcProgram)q;
  return NVRTC_SUCCESS;
}

static inline nvrtcResult host_destroy(nvrtcProgram *p) {
  host_program_t *q = (host_program_t *)*p;
  free(q->text), free(q);
  return NVRTC_SUCCESS;
}

static const char host_prelude[] =
    "#include <math.h>\n#include <string.h>\n#undef INFINITY\n#undef NAN\n"
    "#define __global__\n#define __device__\n#define __forceinline__ inline\n"
    "#define __launch_bounds__(n)\n#define __shared__ static\n#define __syncthreads host_wait\n"
    "struct host_dim { unsigned x; }; static host_dim blockIdx, threadIdx, blockDim;\n"
    "struct alignas(16) uint4 { unsigned x, y, z, w; };\n"
    "static inline float __uint_as_float(unsigned u) { float f; memcpy(&f, &u, 4); return f; }\n"
    "static inline float __int_as_float(int u) { float f; memcpy(&f, &u, 4); return f; }\n"
    "static inline unsigned __float_as_uint(float f) { unsigned u; memcpy(&u, &f, 4); return u; }\n"
    "extern \"C\" void cudaGraphSetConditional(unsigned long long handle, unsigned value) {\n"
    "  unsigned *at = (unsigned *)handle; at[0] = value, at[1]++; }\n"
    "static inline float host_widened(unsigned short h) {\n"
    "  _Float16 x; memcpy(&x, &h, 2); return (float)x; }\n"
    "static inline unsigned short host_narrowed(float f) {\n"
    "  _Float16 x = (_Float16)f; unsigned short h; memcpy(&h, &x, 2); return h; }\n";

/* The threads of a block take turns: each runs up to a barrier, or to its end. */
static const char host_turns[] =
    "#include <ucontext.h>\n"
    "static ucontext_t host_next, host_thread[1024]; static char *host_stack; static bool "
    "host_done[1024];\n"
    "static void (*host_body)(void **); static void **host_args;\n"
    "static void host_wait() {\n"
    "  unsigned own = threadIdx.x; swapcontext(&host_thread[own], &host_next);\n"
    "  threadIdx.x = own; }\n"
    "static void host_begin() { host_body(host_args); host_done[threadIdx.x] = true; }\n"
    "static void host_block(unsigned threads) {\n"
    "  enum { STACK = 1 << 16 };\n"
    "  if (!host_stack) host_stack = new char[(size_t)STACK * 1024];\n"
    "  for (unsigned t = 0; t < threads; t++) {\n"
    "    getcontext(&host_thread[t]); host_done[t] = false;\n"
    "    host_thread[t].uc_stack.ss_sp = host_stack + (size_t)t * STACK;\n"
    "    host_thread[t].uc_stack.ss_size = STACK; host_thread[t].uc_link = &host_next;\n"
    "    makecontext(&host_thread[t], host_begin, 0);\n"
    "  }\n"
    "  for (bool more = true; more;) {\n"
    "    more = false;\n"
    "    for (unsigned t = 0; t < threads; t++) if (!host_done[t]) {\n"
    "      threadIdx.x = t; swapcontext(&host_next, &host_thread[t]); more |= !host_done[t]; }\n"
    "  }\n}\n";

/* Writes text with the two lines of PTX replaced.  Instructions of tensor cores ("asm volatile")
   are left to NVRTC, which defines __CUDACC_RTC__: the prelude computes their products. */
static inline void host_write_text(FILE *f, const char *text) {
  static const char *const ptx[][2] = {
      {"asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(f) : \"h\"(h));", "f = host_widened(h);"},
      {"asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(h) : \"f\"(f));", "h = host_narrowed(f);"}};
  fputs(host_prelude, f);
  fputs(host_turns, f);
  for (int i = 0; i < 2; i++) {
    const char *at = strstr(text, ptx[i][0]);
    host_need(at, "the dialect's conversions of f16 have changed");
    fprintf(f, "%.*s%s", (int)(at - text), text, ptx[i][1]);
    text = at + strlen(ptx[i][0]);
  }
  host_need(!strstr(text, "asm("), "there is other PTX");
  fputs(text, f);
}

/* Behind the kernels, for each a function that runs all of its threads, the number of its
   parameters, and which of them are numbers. */
static inline void host_write_runs(FILE *f, const char *text) {
  for (const char *at = text; (at = strstr(at, "\nKERNEL")); at++) {
    const char *name = strstr(at, " k"), *end = strstr(at, ") {");
    bool groups = !strncmp(at, "\nKERNEL_OF", 10);
    unsigned number = (unsigned)strtoul(name + 2, NULL, 10), values = 0;
    int n = 0;
    fprintf(f, "static void body_k%u(void **a) { k%u(", number, number);
    for (const char *a = name; a < end; a++) {
      bool value = !strncmp(a, "VALUE(", 6);
      if (!value && strncmp(a, "ARG(", 4) != 0) continue;
      host_need(!value || n < 32, "a number behind many arguments");
      values |= value ? 1u << n : 0;
      fprintf(f, "%s(%s)a[%d]", n ? ", " : "", value ? "unsigned long long" : "char *", n);
      n++;
    }
    fprintf(f, "); }\nextern \"C\" int n_k%u; int n_k%u = %d;\n", number, number, n);
    fprintf(f, "extern \"C\" unsigned values_k%u; unsigned values_k%u = %u;\n", number, number,
            values);
    fprintf(f,
            "extern \"C\" void run_k%u(void **a, unsigned blocks, unsigned threads) {\n"
            "  blockDim.x = threads; host_body = body_k%u; host_args = a;\n"
            "  for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)\n    ",
            number, number);
    if (groups)
      fputs("host_block(threads);\n}\n", f);
    else
      fprintf(f, "for (threadIdx.x = 0; threadIdx.x < threads; threadIdx.x++) body_k%u(a);\n}\n",
              number);
  }
}

static inline nvrtcResult host_compile(nvrtcProgram p, int n, const char *const *option) {
  static int numbers;
  host_program_t *q = (host_program_t *)p;
  char source[64], command[256];
  if (host_refuses("nvrtcCompileProgram") && strstr(q->text, "cudaGraphSetConditional"))
    return NVRTC_ERROR_COMPILATION;
  pthread_mutex_lock(&host.lock);
  int number = numbers++;
  host.compiled++;
  pthread_mutex_unlock(&host.lock);
  snprintf(q->path, sizeof q->path, "/tmp/mr-cuda-%ld-%d.so", (long)getpid(), number);
  snprintf(source, sizeof source, "/tmp/mr-cuda-%ld-%d.cc", (long)getpid(), number);
  FILE *f = fopen(source, "w");
  host_need(f, "no file in /tmp");
  host_write_text(f, q->text);
  host_write_runs(f, q->text);
  host_need(!fclose(f), "a file in /tmp");
  snprintf(command, sizeof command, "g++ -O1 -w -ffp-contract=off -shared -fPIC %s -o %s", source,
           q->path);
  int status = system(command);
  if (!status) unlink(source);
  return status ? NVRTC_ERROR_COMPILATION : NVRTC_SUCCESS;
}

static inline nvrtcResult host_log_size(nvrtcProgram p, size_t *n) { return *n = 1, NVRTC_SUCCESS; }
static inline nvrtcResult host_log(nvrtcProgram p, char *log) { return *log = 0, NVRTC_SUCCESS; }
static inline nvrtcResult host_image_size(nvrtcProgram p, size_t *n) {
  struct stat st;
  host_need(stat(((host_program_t *)p)->path, &st) == 0, "no shared object");
  return *n = (size_t)st.st_size + HOST_IMAGE, NVRTC_SUCCESS;
}
static inline nvrtcResult host_image(nvrtcProgram p, char *image) {
  const char *path = ((host_program_t *)p)->path;
  FILE *f = fopen(path, "rb");
  struct stat st;
  host_need(f && fstat(fileno(f), &st) == 0, "no shared object");
  size_t bytes = (size_t)st.st_size;
  memcpy(image, host_magic, sizeof host_magic), memcpy(image + 8, &bytes, sizeof bytes);
  host_need(fread(image + HOST_IMAGE, 1, bytes, f) == bytes, "no shared object");
  fclose(f), unlink(path);
  return NVRTC_SUCCESS;
}

static const mr_nvrtc_t host_nvrtc = {.nvrtcGetErrorString = host_nvrtc_text,
                                      .nvrtcGetNumSupportedArchs = host_archs_n,
                                      .nvrtcGetSupportedArchs = host_archs,
                                      .nvrtcCreateProgram = host_create,
                                      .nvrtcCompileProgram = host_compile,
                                      .nvrtcDestroyProgram = host_destroy,
                                      .nvrtcGetProgramLogSize = host_log_size,
                                      .nvrtcGetProgramLog = host_log,
                                      .nvrtcGetCUBINSize = host_image_size,
                                      .nvrtcGetCUBIN = host_image,
                                      .major = 13,
                                      .path = "the system's C++ compiler"};

/* Its images are no NVIDIA driver's: without a folder of the test's own none are kept. */
static inline void host_put(void) {
  setenv("MILLRACE_KERNELS", "off", 0);
  mr__cuda_api_put(&host_api);
  mr__nvrtc_put(&host_nvrtc);
}

static inline size_t host_blocks_left(void) {
  size_t n = 0;
  for (size_t i = 0; i < host.n_block; i++) n += host.block[i].base && !host.block[i].given_back;
  return n;
}

#endif
