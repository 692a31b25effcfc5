/* Each body of a conditional node is a graph of its own, into which a stream of its own is
   captured: the one of its depth, since the stream around it is in the middle of its capture. */
#include "model/backends/cuda/condition.h"

#include <pthread.h>
#include <stdio.h>

#include "model/backends/cuda/program.h"

/* cudaGraphSetConditional is the driver's, which knows it when it loads the kernel.  Its
   declaration stands here because NVRTC has no headers. */
#define SET "extern \"C\" __device__ void cudaGraphSetConditional(u64 handle, u32 value);\n"

const char mr_cuda_set_branch[] = SET
    "KERNEL_OF(1) k(ARG(0), VALUE(1), VALUE(2)) {\n"
    "  PTR(i32, index, 0);\n"
    "  i32 j = index[0], last = (i32)b2;\n"
    "  cudaGraphSetConditional(b1, (u32)(j < 0 ? 0 : j < last ? j : last));\n"
    "}\n";

const char mr_cuda_set_round[] = SET
    "KERNEL_OF(1) k(ARG(0), VALUE(1)) {\n"
    "  PTR(u8, verdict, 0);\n"
    "  cudaGraphSetConditional(b1, verdict[0]);\n"
    "}\n";

static void conditions_make(mr_cuda_device_t *d) {
  const mr_cuda_wanted_t want[] = {{mr_cuda_set_branch, &d->conditions.branch},
                                   {mr_cuda_set_round, &d->conditions.round}};
  mr_diag_t diag = {0};
  char text[160];
  cudaError_t code = cudaSuccess;
  for (int i = 0; i < MR_CUDA_DEPTH && code == cudaSuccess; i++)
    code = d->cu->cudaStreamCreateWithFlags(&d->conditions.stream[i], cudaStreamNonBlocking);
  if (code != cudaSuccess)
    snprintf(d->conditions.why, sizeof d->conditions.why, "%s", mr__cuda_error(code, text));
  else if (mr__cuda_kernels(d, want, 2, &diag) < 0)
    snprintf(d->conditions.why, sizeof d->conditions.why, "%.*s", (int)sizeof d->conditions.why - 1,
             diag.text);
}

void mr__cuda_conditions(mr_cuda_device_t *d) {
  pthread_mutex_lock(&d->conditions.lock);
  if (!d->conditions.tried) conditions_make(d);
  d->conditions.tried = true;
  pthread_mutex_unlock(&d->conditions.lock);
}

/* The graph that is captured now, and the nodes that the next command waits for. */
typedef struct place {
  cudaGraph_t graph;
  const cudaGraphNode_t *node;
  const cudaGraphEdgeData *edge;
  size_t n;
} place_t;

static cudaError_t place_now(mr_cuda_device_t *d, place_t *p) {
  enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaError_t code = d->cu->cudaStreamGetCaptureInfo(mr__cuda_stream(d), &status, NULL, &p->graph,
                                                     &p->node, &p->edge, &p->n);
  if (code != cudaSuccess) return code;
  return status == cudaStreamCaptureStatusActive ? cudaSuccess : cudaErrorStreamCaptureInvalidated;
}

/* A value that decides, and the commands that it decides about. */
typedef struct condition {
  mr_cuda_device_t *d;
  mr_cuda_recording_t *r;
  enum cudaGraphConditionalNodeType type;
  const void *value; /* the index or the verdict, in the device's memory */
  int n;             /* bodies */
  cudaGraphConditionalHandle handle;
} condition_t;

static cudaError_t condition_set(const condition_t *c) {
  bool round = c->type == cudaGraphCondTypeWhile;
  void *arg[] = {(void *)(uintptr_t)c->value, (void *)(uintptr_t)c->handle,
                 (void *)(uintptr_t)(c->n - 1)};
  return mr__cuda_launch(c->d, round ? c->d->conditions.round : c->d->conditions.branch, 1, 1, arg,
                         round ? 2 : 3);
}

/* Creates the handle and sets it from the value. */
static cudaError_t condition_begin(condition_t *c) {
  place_t p;
  cudaError_t code = place_now(c->d, &p);
  if (code == cudaSuccess)
    code = c->d->cu->cudaGraphConditionalHandleCreate(&c->handle, p.graph, 0, 0);
  return code == cudaSuccess ? condition_set(c) : code;
}

/* Adds the node behind the commands so far, and makes the next ones wait for it.  The array of
   bodies is the node's. */
static cudaError_t condition_node(const condition_t *c, cudaGraph_t **body) {
  struct cudaGraphNodeParams params = {.type = cudaGraphNodeTypeConditional};
  cudaGraphNode_t node;
  place_t p;
  params.conditional.handle = c->handle;
  params.conditional.type = c->type;
  params.conditional.size = (unsigned)c->n;
  cudaError_t code = place_now(c->d, &p);
  if (code == cudaSuccess)
    code = c->d->cu->cudaGraphAddNode(&node, p.graph, p.node, p.edge, p.n, &params);
  if (code != cudaSuccess) return code;
  *body = params.conditional.phGraph_out;
  return c->d->cu->cudaStreamUpdateCaptureDependencies(mr__cuda_stream(c->d), &node, NULL, 1,
                                                       cudaStreamSetCaptureDependencies);
}

/* Captures what give(arg, j) gives into the graph of a body. */
static cudaError_t condition_body(const condition_t *c, cudaGraph_t body,
                                  void (*give)(void *arg, int j), void *arg, int j) {
  const mr_cuda_api_t *cu = c->d->cu;
  cudaStream_t around = c->r->stream, own = c->d->conditions.stream[c->r->depth];
  cudaError_t code =
      cu->cudaStreamBeginCaptureToGraph(own, body, NULL, NULL, 0, cudaStreamCaptureModeThreadLocal);
  if (code != cudaSuccess) return code;
  c->r->stream = own, c->r->depth++;
  give(arg, j);
  if (c->type == cudaGraphCondTypeWhile) code = condition_set(c);
  c->r->stream = around, c->r->depth--;
  cudaError_t ended = cu->cudaStreamEndCapture(own, &body);
  return code == cudaSuccess ? ended : code;
}

/* Whether c may begin: the calling thread, whose recording is c->r, records and has not failed. */
static bool condition_init(condition_t *c) {
  mr_cuda_device_t *d = c->d;
  c->r = mr__cuda_recording();
  if (!c->r || *c->r->why) return false;
  pthread_mutex_lock(&d->conditions.lock);
  if (*d->conditions.why) mr__cuda_failed_by(d, d->conditions.why, "preparing branches and loops");
  pthread_mutex_unlock(&d->conditions.lock);
  if (c->r->depth == MR_CUDA_DEPTH)
    mr__cuda_failed_by(d, "too many others around it", "a branch or loop");
  c->r->conditions++;
  return !*c->r->why;
}

bool mr__cuda_choose(const mr_device_t *device, const int32_t *index, int n,
                     void (*give)(void *arg, int j), void *arg) {
  condition_t c = {
      .d = mr__cuda_use(device), .type = cudaGraphCondTypeSwitch, .value = index, .n = n};
  cudaGraph_t *body;
  if (!condition_init(&c)) return c.r != NULL;
  cudaError_t code = condition_begin(&c);
  if (code == cudaSuccess) code = condition_node(&c, &body);
  for (int j = 0; j < n && code == cudaSuccess && !*c.r->why; j++)
    code = condition_body(&c, body[j], give, arg, j);
  if (code != cudaSuccess) mr__cuda_failed(c.d, code, "a branch");
  return true;
}

bool mr__cuda_loop(const mr_device_t *device, const uint8_t *verdict,
                   void (*give)(void *arg, int part), void *arg) {
  condition_t c = {
      .d = mr__cuda_use(device), .type = cudaGraphCondTypeWhile, .value = verdict, .n = 1};
  cudaGraph_t *body;
  if (!condition_init(&c)) return c.r != NULL;
  give(arg, 0);
  cudaError_t code = *c.r->why ? cudaSuccess : condition_begin(&c);
  if (code == cudaSuccess && !*c.r->why) code = condition_node(&c, &body);
  if (code == cudaSuccess && !*c.r->why) code = condition_body(&c, body[0], give, arg, 1);
  if (code != cudaSuccess) mr__cuda_failed(c.d, code, "a loop");
  return true;
}
