/* Finds, opens and closes devices.  A command that fails later, during a run that cannot report it,
   is remembered with its device and sent as a notice, once. */
#include "model/backends/cuda/device.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/library.h"
#include "model/backends/cuda/attention.h"
#include "model/backends/cuda/matmul.h"
#include "model/backends/cuda/program.h"
#include "model/backends/cuda/switch.h"
#include "model/exec/device.h"
#include "model/ir/op.h"

enum { MAJOR_LEAST = 8 }; /* of the compute capability: bf16 */

/* The device that is the calling thread's current one, + 1; 0: none was made so yet. */
static _Thread_local unsigned current;

/* The calling thread's; NULL: its commands are started. */
static _Thread_local mr_cuda_recording_t *recording;

/* A run-time library of CUDA 13.x works with every driver of CUDA 13. */
static mr_err_t driver_fits(const mr_cuda_api_t *cu, mr_diag_t *diag) {
  int driver = 0, wants = 0, n;
  char text[160], why[400];
  cu->cudaRuntimeGetVersion(&wants);
  wants = wants / 1000 * 1000;
  if (cu->cudaDriverGetVersion(&driver) != cudaSuccess) driver = 0;
  if (driver >= wants) return MR_OK;
  /* A libcuda that only answers with errors, as the toolkit's stub does, has version 0 as well; the
     count of devices then tells its error, and InsufficientDriver where there is no libcuda. */
  cudaError_t code = driver ? cudaSuccess : cu->cudaGetDeviceCount(&n);
  if (code != cudaSuccess && code != cudaErrorInsufficientDriver)
    return mr_fail(diag, MR_ERR_UNAVAILABLE,
                   "device cuda: the driver (libcuda.so.1) does not start: %s",
                   mr__cuda_error(code, text));
  if (!driver && !mr_library_open("libcuda.so.1", why, sizeof why) && *why)
    return mr_fail(diag, MR_ERR_UNAVAILABLE,
                   "device cuda: the NVIDIA driver (libcuda.so.1) cannot be loaded: %s", why);
  if (!driver)
    return mr_fail(diag, MR_ERR_UNAVAILABLE,
                   "device cuda: there is no NVIDIA driver (libcuda.so.1) on this machine; install "
                   "one for CUDA %d, or use device=cpu",
                   wants / 1000);
  return mr_fail(diag, MR_ERR_UNAVAILABLE,
                 "device cuda: the driver is for CUDA %d.%d, want one for CUDA %d or newer; update "
                 "the NVIDIA driver",
                 driver / 1000, driver % 1000 / 10, wants / 1000);
}

static mr_err_t cuda_device_choose(mr_cuda_device_t *d, const char *number, mr_diag_t *diag) {
  int n = 0;
  char text[160];
  cudaError_t code = d->cu->cudaGetDeviceCount(&n);
  if (code != cudaSuccess && code != cudaErrorNoDevice)
    return mr_fail(diag, MR_ERR_UNAVAILABLE, "device cuda: the driver lists no devices: %s",
                   mr__cuda_error(code, text));
  if (code == cudaErrorNoDevice || n <= 0)
    return mr_fail(diag, MR_ERR_UNAVAILABLE,
                   "device cuda: the driver finds no GPU (CUDA_VISIBLE_DEVICES may hide it); "
                   "`millrace doctor` lists the devices");
  if (d->number < (unsigned)n) return MR_OK;
  return mr_fail(diag, MR_ERR_CONFIG, "%s: this machine has %d CUDA device%s, want 0 to %d",
                 mr__device_wish("cuda", "MILLRACE_CUDA", number, text), n, n == 1 ? "" : "s",
                 n - 1);
}

/* Sets *pools to whether the driver says that the device has memory pools. */
static mr_err_t cuda_device_ask(mr_cuda_device_t *d, bool *pools, mr_diag_t *diag) {
  struct cudaDeviceProp p = {0};
  char text[160];
  cudaError_t code = d->cu->cudaGetDeviceProperties(&p, (int)d->number);
  if (code != cudaSuccess)
    return mr_fail(diag, MR_ERR_UNAVAILABLE, "device cuda:%u: the driver does not describe it: %s",
                   d->number, mr__cuda_error(code, text));
  snprintf(d->name, sizeof d->name, "%s", p.name);
  d->major = p.major, d->minor = p.minor, d->processors = p.multiProcessorCount;
  d->memory = p.totalGlobalMem;
  if (p.major < MAJOR_LEAST)
    return mr_fail(diag, MR_ERR_UNAVAILABLE,
                   "device cuda:%u: %s has compute capability %d.%d, want 8.0 or higher (Ampere or "
                   "newer); use device=opencl or device=cpu",
                   d->number, d->name, d->major, d->minor);
  *pools = p.memoryPoolsSupported;
  return MR_OK;
}

/* The driver's pool, of which a block has been taken and given back: a driver may name a pool that
   it cannot take from.  It keeps what is given back, so that taking it again costs no call of the
   system. */
static cudaError_t cuda_device_pool(const mr_cuda_device_t *d, cudaMemPool_t *pool) {
  uint64_t all = UINT64_MAX;
  void *block;
  cudaError_t code = d->cu->cudaDeviceGetDefaultMemPool(pool, (int)d->number);
  if (code == cudaSuccess)
    code = d->cu->cudaMemPoolSetAttribute(*pool, cudaMemPoolAttrReleaseThreshold, &all);
  if (code == cudaSuccess) code = d->cu->cudaMallocAsync(&block, 256, d->stream);
  if (code == cudaSuccess) code = d->cu->cudaFreeAsync(block, d->stream);
  return code == cudaSuccess ? d->cu->cudaStreamSynchronize(d->stream) : code;
}

/* Sets d->pool, or says why it stays NULL. */
static void cuda_device_take_pool(mr_cuda_device_t *d, bool pools) {
  char text[160] = "the driver has none for it";
  cudaMemPool_t pool = NULL;
  if (mr__cuda_is_off(MR_CUDA_SWITCH_POOL)) return;
  cudaError_t code = pools ? cuda_device_pool(d, &pool) : cudaErrorNotSupported;
  if (code == cudaSuccess) {
    d->pool = pool;
    return;
  }
  d->cu->cudaGetLastError(); /* a refusal is no failure of later commands */
  if (pools) mr__cuda_error(code, text);
  mr_notice(
      "device cuda:%u: %s has no usable memory pool (%s), so that memory is taken by cudaMalloc, "
      "and "
      "giving it back waits for the device",
      d->number, d->name, text);
}

/* `copied` has been reached, so that a wait before the first copy returns at once. */
static cudaError_t cuda_device_beside(mr_cuda_device_t *d, mr_cuda_beside_t *b) {
  cudaError_t code = d->cu->cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking);
  if (code == cudaSuccess)
    code = d->cu->cudaEventCreateWithFlags(&b->given, cudaEventDisableTiming);
  if (code == cudaSuccess)
    code = d->cu->cudaEventCreateWithFlags(&b->copied, cudaEventDisableTiming);
  return code == cudaSuccess ? d->cu->cudaEventRecord(b->copied, b->stream) : code;
}

static mr_err_t cuda_device_start(mr_cuda_device_t *d, const char *number, mr_diag_t *diag) {
  char text[160];
  bool pools = false;
  MR_TRY(driver_fits(d->cu, diag));
  MR_TRY(cuda_device_choose(d, number, diag));
  MR_TRY(cuda_device_ask(d, &pools, diag));
  MR_TRY(mr__cuda_pins_create(d, diag));
  MR_TRY(mr__cuda_plans_create(d, diag));
  cudaError_t code = d->cu->cudaSetDevice((int)d->number);
  current = d->number + 1;
  if (code == cudaSuccess)
    code = d->cu->cudaStreamCreateWithFlags(&d->stream, cudaStreamNonBlocking);
  if (code == cudaSuccess) cuda_device_take_pool(d, pools);
  for (int i = 0; i < MR_CUDA_COMMANDS && code == cudaSuccess; i++)
    code = cuda_device_beside(d, &d->beside[i]);
  size_t free = 0, all = 0;
  if (code == cudaSuccess && d->cu->cudaMemGetInfo(&free, &all) == cudaSuccess && all > free)
    d->used = all - free;
  if (code == cudaSuccess) return MR_OK;
  return mr_fail(diag, MR_ERR_UNAVAILABLE, "device cuda:%u: %s cannot be opened: %s", d->number,
                 d->name, mr__cuda_error(code, text));
}

static void release_stream(const mr_cuda_device_t *d, cudaStream_t stream) {
  if (stream) d->cu->cudaStreamDestroy(stream);
}

static void release_event(const mr_cuda_device_t *d, cudaEvent_t event) {
  if (event) d->cu->cudaEventDestroy(event);
}

/* Frees what was made of d, whose commands are done. */
static void cuda_device_end(mr_cuda_device_t *d) {
  mr__cuda_plans_destroy(d);
  mr__cublaslt_end(d);
  mr__cuda_programs_fini(d);
  mr__cuda_pins_destroy(d);
  for (int i = 0; i < MR_CUDA_DEPTH; i++) release_stream(d, d->conditions.stream[i]);
  release_stream(d, d->capturing.stream);
  for (int i = 0; i < MR_CUDA_COMMANDS; i++) {
    release_event(d, d->beside[i].given), release_event(d, d->beside[i].copied);
    release_stream(d, d->beside[i].stream);
  }
  release_stream(d, d->stream);
  pthread_mutex_destroy(&d->programs.lock);
  pthread_mutex_destroy(&d->capturing.lock);
  pthread_mutex_destroy(&d->conditions.lock);
  pthread_mutex_destroy(&d->lt.lock);
  free(d);
}

static mr_cuda_device_t *cuda_device_create(const mr_device_t *device, const mr_target_t *target,
                                            mr_diag_t *diag) {
  mr_cuda_device_t *d = calloc(1, sizeof *d);
  if (!d) return mr_no_memory(diag, "device %s", device->name), NULL;
  d->cu = mr__cuda_api();
  d->device = device;
  d->target = *target;
  d->target.device = device;
  pthread_mutex_init(&d->programs.lock, NULL);
  pthread_mutex_init(&d->capturing.lock, NULL);
  pthread_mutex_init(&d->conditions.lock, NULL);
  pthread_mutex_init(&d->lt.lock, NULL);
  return d;
}

mr_err_t mr__cuda_open(mr_device_t *device, const char *number, const mr_target_t *target,
                       mr_diag_t *diag) {
  mr_cuda_device_t *d = cuda_device_create(device, target, diag);
  if (!d) return MR_ERR_NOMEM;
  d->number = (unsigned)device->index;
  mr_err_t e = cuda_device_start(d, number, diag);
  if (e < 0) return cuda_device_end(d), e;
  device->context = d;
  return MR_OK;
}

mr_err_t mr__cuda_open_described(mr_device_t *device, const char *what, const mr_target_t *target,
                                 mr_diag_t *diag) {
  mr_cuda_described_t is;
  MR_TRY(mr__cuda_described_read(what, &is, diag));
  mr_cuda_device_t *d = cuda_device_create(device, target, diag);
  if (!d) return MR_ERR_NOMEM;
  d->description = is;
  d->described = &d->description;
  d->major = (int)is.major, d->minor = (int)is.minor;
  d->processors = (int)is.processors;
  d->memory = is.memory;
  memcpy(d->name, is.name, sizeof d->name);
  mr_err_t e = mr__cuda_plans_create(d, diag);
  if (e < 0) return cuda_device_end(d), e;
  device->context = d;
  return MR_OK;
}

void mr__cuda_close(mr_device_t *device) {
  mr_cuda_device_t *d = mr__cuda_use(device);
  for (int i = 0; i < MR_CUDA_COMMANDS && !d->described; i++)
    d->cu->cudaStreamSynchronize(d->beside[i].stream);
  if (!d->described) d->cu->cudaStreamSynchronize(d->stream);
  cuda_device_end(d);
}

mr_cuda_device_t *mr__cuda_use(const mr_device_t *device) {
  mr_cuda_device_t *d = device->context;
  if (!d->described && current != d->number + 1) {
    d->cu->cudaSetDevice((int)d->number);
    current = d->number + 1;
  }
  return d;
}

cudaStream_t mr__cuda_stream(mr_cuda_device_t *d) {
  return recording && recording->d == d ? recording->stream : d->stream;
}

cudaStream_t mr__cuda_queue(mr_cuda_device_t *d, int queue) {
  return queue == MR_CUDA_COMMANDS ? d->stream : d->beside[queue].stream;
}

void mr__cuda_record(mr_cuda_recording_t *r) { recording = r; }

mr_cuda_recording_t *mr__cuda_recording(void) { return recording; }

void mr__cuda_failed_by(mr_cuda_device_t *d, const char *why, const char *what) {
  if (recording && recording->d == d) {
    if (!*recording->why)
      snprintf(recording->why, sizeof recording->why, "%s failed with %s", what, why);
    return;
  }
  int none = 0;
  if (!atomic_compare_exchange_strong_explicit(&d->failed, &none, 1, memory_order_relaxed,
                                               memory_order_relaxed))
    return;
  snprintf(d->why, sizeof d->why, "%s failed with %s", what, why);
  atomic_store_explicit(&d->failed, 2, memory_order_release); /* with the acquire in usable */
  mr_notice("device cuda: %s (cuda:%u): %s; its results are NaN from here on", d->name, d->number,
            d->why);
}

void mr__cuda_failed(mr_cuda_device_t *d, cudaError_t code, const char *what) {
  char text[160];
  mr__cuda_failed_by(d, mr__cuda_error(code, text), what);
}

void mr__cuda_refused(const mr_call_t *c, const char *why) {
  char what[200];
  snprintf(what, sizeof what, "%s%s%s", c->eqn->op->name, *c->eqn->scope ? " in " : "",
           c->eqn->scope);
  mr__cuda_failed_by(c->device->context, why, what);
}

void mr__cuda_ran(mr_cuda_device_t *d, const mr_call_t *c, cudaError_t code) {
  char text[160];
  if (code == cudaSuccess && mr__device_waits())
    code = d->cu->cudaStreamSynchronize(mr__cuda_stream(d));
  if (code != cudaSuccess) mr__cuda_refused(c, mr__cuda_error(code, text));
}

mr_err_t mr__cuda_usable(const mr_device_t *device, mr_diag_t *diag) {
  mr_cuda_device_t *d = mr__cuda_use(device);
  int failed = atomic_load_explicit(&d->failed, memory_order_acquire); /* release: failed_by */
  if (!failed) return MR_OK;
  return mr_fail(diag, MR_ERR_UNAVAILABLE, "device cuda: %s (cuda:%u): %s", d->name, d->number,
                 failed == 2 ? d->why : "a command has failed");
}
