/* Captures on a stream of its own: what other threads give to the device's stream meanwhile, copies
   and memory, does not become part of the graph. */
#include "model/backends/cuda/captured.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "model/backends/cuda/device.h"
#include "model/backends/cuda/switch.h"
#include "model/exec/device.h"

enum { VAIN_MOST = 2 * MR_CUDA_CAPTURED };

typedef struct graph {
  cudaGraphExec_t exec; /* NULL: this place is free */
  cudaGraph_t source;   /* what exec was made of, if it has conditional nodes; else NULL */
  const void **at;      /* [n] the addresses that its commands hold */
  uint64_t used;        /* the last run that started it */
} graph_t;

typedef struct captured {
  graph_t graph[MR_CUDA_CAPTURED];
  uint64_t runs;
  int vain; /* captures since a graph was started again */
  bool off; /* commands are given one by one from here on */
} captured_t;

static _Atomic int said; /* of the process; relaxed: 1 after the notice */

static void captured_give_up(captured_t *c, const char *why) {
  c->off = true;
  if (!atomic_exchange_explicit(&said, 1, memory_order_relaxed))
    mr_notice(
        "device cuda: a run does not become a CUDA graph, so that its kernels are started one by "
        "one: %s",
        why);
}

static void graph_fini(const mr_cuda_device_t *d, graph_t *g) {
  if (g->exec) {
    /* A graph that is under way is freed when it is done.  CUDA does not say so of the handles of
       its conditional nodes, which belong to their source. */
    if (g->source) d->cu->cudaStreamSynchronize(d->stream);
    d->cu->cudaGraphExecDestroy(g->exec);
    if (g->source) d->cu->cudaGraphDestroy(g->source);
  }
  free(g->at);
  *g = (graph_t){0};
}

void mr__cuda_forget(const mr_device_t *device, void *kept) {
  const mr_cuda_device_t *d = mr__cuda_use(device);
  captured_t *c = kept;
  for (int i = 0; c && i < MR_CUDA_CAPTURED; i++) graph_fini(d, &c->graph[i]);
  free(c);
}

static captured_t *captured_create(void) {
  captured_t *c = calloc(1, sizeof *c);
  if (c) c->off = mr__cuda_is_off(MR_CUDA_SWITCH_GRAPH);
  return c;
}

/* The graph with these addresses; else NULL, and *room is where it may be put. */
static graph_t *captured_find(captured_t *c, const void *const *at, size_t bytes, graph_t **room) {
  *room = c->graph;
  for (int i = 0; i < MR_CUDA_CAPTURED; i++) {
    graph_t *g = &c->graph[i];
    if (g->exec && !memcmp(g->at, at, bytes)) return g;
    if (g->used < (*room)->used) *room = g;
  }
  return NULL;
}

/* Captures what give gives, with the lock held.  *out is the caller's. */
static cudaError_t capture_commands(mr_cuda_device_t *d, mr_cuda_recording_t *r,
                                    void (*give)(void *arg), void *arg, cudaGraph_t *out) {
  cudaError_t code = cudaSuccess;
  if (!d->capturing.stream)
    code = d->cu->cudaStreamCreateWithFlags(&d->capturing.stream, cudaStreamNonBlocking);
  if (code != cudaSuccess) return d->capturing.stream = NULL, code;
  r->stream = d->capturing.stream;
  code = d->cu->cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeThreadLocal);
  if (code != cudaSuccess) return code;
  mr__cuda_record(r);
  give(arg);
  mr__cuda_record(NULL);
  return d->cu->cudaStreamEndCapture(r->stream, out);
}

/* Sets g->exec and g->source; false: why says what refused, and the device is as before. */
static bool captured_exec(mr_cuda_device_t *d, void (*give)(void *arg), void *arg, graph_t *g,
                          char why[400]) {
  mr_cuda_recording_t r = {.d = d};
  cudaGraph_t graph = NULL;
  char text[160];
  pthread_mutex_lock(&d->capturing.lock);
  cudaError_t code = capture_commands(d, &r, give, arg, &graph);
  pthread_mutex_unlock(&d->capturing.lock);
  if (code == cudaSuccess && !*r.why) code = d->cu->cudaGraphInstantiate(&g->exec, graph, 0);
  bool good = code == cudaSuccess && !*r.why;
  if (good && r.conditions) g->source = graph;
  if (graph && !g->source) d->cu->cudaGraphDestroy(graph);
  if (good) return true;
  d->cu->cudaGetLastError(); /* a refusal is no failure of later commands */
  snprintf(why, 400, "%s", *r.why ? r.why : mr__cuda_error(code, text));
  return g->exec = NULL, false;
}

/* The graph of a run, captured now if it is new; NULL: it cannot be. */
static graph_t *captured_graph(mr_cuda_device_t *d, captured_t *c, const void *const *at, int n,
                               void (*give)(void *arg), void *arg) {
  size_t bytes = (size_t)n * sizeof *at;
  char why[400];
  graph_t *room, *g = captured_find(c, at, bytes, &room);
  if (g) return c->vain = 0, g;
  graph_fini(d, room);
  if (++c->vain > VAIN_MOST) return c->off = true, NULL;
  if (!(room->at = malloc(bytes + 1))) return NULL;
  memcpy(room->at, at, bytes);
  if (captured_exec(d, give, arg, room, why)) return room;
  graph_fini(d, room);
  captured_give_up(c, why);
  return NULL;
}

/* Whether the commands were given as a graph. */
static bool captured_start(const mr_device_t *device, captured_t *c, const void *const *at, int n,
                           void (*give)(void *arg), void *arg) {
  mr_cuda_device_t *d = mr__cuda_use(device);
  char text[160];
  if (c->off || !c->runs++ || mr__device_waits()) return false;
  if (mr__cuda_usable(device, NULL) < 0) return false;
  graph_t *g = captured_graph(d, c, at, n, give, arg);
  if (!g) return false;
  g->used = c->runs;
  cudaError_t code = d->cu->cudaGraphLaunch(g->exec, d->stream);
  if (code == cudaSuccess) return true;
  d->cu->cudaGetLastError();
  captured_give_up(c, mr__cuda_error(code, text));
  return false;
}

void mr__cuda_repeat(const mr_device_t *device, void **kept, const void *const *at, int n,
                     void (*give)(void *arg), void *arg) {
  if (!*kept) *kept = captured_create();
  if (!*kept || !captured_start(device, *kept, at, n, give, arg)) give(arg);
}
