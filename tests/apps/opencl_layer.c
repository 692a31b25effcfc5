/* A layer between OpenCL's loader and the driver (OPENCL_LAYERS) for tests: it holds commands back
   for a time drawn from a seed, so that a host that does not wait reads what is not there yet or
   overwrites what has not been copied; and it can refuse a kernel.

   LAYER_SEED=S: holds back one of four commands.  LAYER_SLOW=NS: holds back each copy to the device
   of 4 KiB or more for NS nanoseconds a byte, as a slow bus would.  LAYER_FAIL=N: the N-th kernel
   is refused. LAYER_ABORT=1: ends the process that asks for devices, as drivers do that find no
   memory. LAYER_COUNT=FILE: at the end, writes how many commands were held back, and how many
   kernels started. */
#define CL_TARGET_OPENCL_VERSION 300
#if __has_include(<CL/cl_layer.h>)
#include <CL/cl_layer.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct _cl_icd_dispatch *next;
static struct _cl_icd_dispatch mine;
static atomic_long held, kernels;
static atomic_ulong drawn;
static long fail_at, slow_ns;
static bool delays;

/* splitmix64: the draw of this number */
static unsigned long layer_draw(unsigned long i) {
  unsigned long z = i * 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

typedef struct gate {
  cl_event event;
  unsigned us;
} gate_t;

static void *open_gate(void *arg) {
  gate_t *g = arg;
  usleep(g->us);
  next->clSetUserEventStatus(g->event, CL_COMPLETE);
  next->clReleaseEvent(g->event);
  free(g);
  return NULL;
}

/* An event that a command has to wait for us microseconds; NULL without memory. */
static cl_event gate_for(cl_command_queue q, unsigned us) {
  cl_context context;
  pthread_t thread;
  gate_t *g = malloc(sizeof *g);
  if (!g) return NULL;
  next->clGetCommandQueueInfo(q, CL_QUEUE_CONTEXT, sizeof(context), &context, NULL);
  *g = (gate_t){next->clCreateUserEvent(context, NULL), us};
  cl_event event = g->event;
  next->clRetainEvent(event);
  if (!event || pthread_create(&thread, NULL, open_gate, g)) abort();
  pthread_detach(thread);
  held++;
  return event;
}

/* For a time that is drawn, or none. */
static cl_event gate_before(cl_command_queue q) {
  unsigned long d = layer_draw(atomic_fetch_add(&drawn, 1));
  return delays && d % 4 == 0 ? gate_for(q, (unsigned)(d >> 8) % 2000) : NULL;
}

static void gate_left(cl_event event) {
  if (event) next->clReleaseEvent(event);
}

static cl_int CL_API_CALL layer_kernel(cl_command_queue q, cl_kernel k, cl_uint dim,
                                       const size_t *from, const size_t *global,
                                       const size_t *local, cl_uint n, const cl_event *wait,
                                       cl_event *event) {
  if (++kernels == fail_at) return CL_OUT_OF_RESOURCES;
  cl_event gate = gate_before(q);
  cl_int code = next->clEnqueueNDRangeKernel(q, k, dim, from, global, local, gate ? 1 : n,
                                             gate ? &gate : wait, event);
  return gate_left(gate), code;
}

static cl_int CL_API_CALL layer_read(cl_command_queue q, cl_mem from, cl_bool waits, size_t at,
                                     size_t bytes, void *to, cl_uint n, const cl_event *wait,
                                     cl_event *event) {
  cl_event gate = gate_before(q);
  cl_int code = next->clEnqueueReadBuffer(q, from, waits, at, bytes, to, gate ? 1 : n,
                                          gate ? &gate : wait, event);
  return gate_left(gate), code;
}

static cl_int CL_API_CALL layer_write(cl_command_queue q, cl_mem to, cl_bool waits, size_t at,
                                      size_t bytes, const void *from, cl_uint n,
                                      const cl_event *wait, cl_event *event) {
  bool slow = slow_ns && bytes >= 4096;
  cl_event gate = slow ? gate_for(q, (unsigned)(bytes * (size_t)slow_ns / 1000)) : gate_before(q);
  cl_int code = next->clEnqueueWriteBuffer(q, to, waits, at, bytes, from, gate ? 1 : n,
                                           gate ? &gate : wait, event);
  return gate_left(gate), code;
}

static void layer_report(void) {
  const char *path = getenv("LAYER_COUNT");
  FILE *f = path ? fopen(path, "w") : NULL;
  if (!f) return;
  fprintf(f, "%ld %ld\n", held, kernels);
  fclose(f);
}

CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info name, size_t size, void *value,
                                               size_t *size_ret) {
  cl_layer_api_version version = CL_LAYER_API_VERSION_100;
  if (name != CL_LAYER_API_VERSION) return CL_INVALID_VALUE;
  if (value && size < sizeof version) return CL_INVALID_VALUE;
  if (value) memcpy(value, &version, sizeof version);
  if (size_ret) *size_ret = sizeof version;
  return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint n, const struct _cl_icd_dispatch *target,
                                            cl_uint *n_ret, const struct _cl_icd_dispatch **layer) {
  const char *seed = getenv("LAYER_SEED"), *fail = getenv("LAYER_FAIL");
  const char *slow = getenv("LAYER_SLOW");
  if (getenv("LAYER_ABORT")) {
    fputs("layer: Not enough memory\n", stderr);
    abort();
  }
  if (n < sizeof mine / sizeof(void *)) return CL_INVALID_VALUE;
  next = target;
  mine = *target;
  mine.clEnqueueNDRangeKernel = layer_kernel;
  mine.clEnqueueReadBuffer = layer_read;
  mine.clEnqueueWriteBuffer = layer_write;
  delays = seed != NULL;
  drawn = seed ? strtoul(seed, NULL, 10) << 32 : 0;
  fail_at = fail ? atol(fail) : 0;
  slow_ns = slow ? atol(slow) : 0;
  atexit(layer_report);
  *n_ret = sizeof mine / sizeof(void *);
  *layer = &mine;
  return CL_SUCCESS;
}
#endif
