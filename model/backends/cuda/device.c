/* Finds and opens the device, once a process.  A command that fails later, during a run that cannot
   report it, is remembered here and sent as a notice, once. */
#include "model/backends/cuda/device.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/library.h"
#include "model/backends/cuda/switch.h"
#include "model/exec/device.h"
#include "model/ir/op.h"

enum { MAJOR_LEAST = 8 }; /* of the compute capability: bf16 */

static struct {
  pthread_mutex_t lock;
  bool opened; /* device or diag is settled */
  mr_cuda_device_t device;
  mr_cuda_described_t described; /* of the device, if it is described */
  mr_diag_t diag;                /* why the device is missing */
  _Atomic int
      failed;    /* 1 after the first failed command, 2 once `why` names it: release, acquire */
  char why[400]; /* the first failure; written by the thread that has set failed to 1 */
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

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

static mr_err_t cuda_device_choose(const mr_cuda_device_t *d, const char *number, mr_diag_t *diag) {
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
static cudaError_t cuda_device_beside(const mr_cuda_device_t *d, mr_cuda_beside_t *b) {
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
  d->cu = mr__cuda_api();
  MR_TRY(mr__device_number("cuda", "MILLRACE_CUDA", number, &d->number, diag));
  MR_TRY(driver_fits(d->cu, diag));
  MR_TRY(cuda_device_choose(d, number, diag));
  MR_TRY(cuda_device_ask(d, &pools, diag));
  cudaError_t code = d->cu->cudaSetDevice((int)d->number);
  if (code == cudaSuccess)
    code = d->cu->cudaStreamCreateWithFlags(&d->stream, cudaStreamNonBlocking);
  if (code == cudaSuccess) cuda_device_take_pool(d, pools);
  for (int i = 0; i < MR_CUDA_COMMANDS && code == cudaSuccess; i++)
    code = cuda_device_beside(d, &d->beside[i]);
  size_t free = 0, all = 0;
  if (code == cudaSuccess && d->cu->cudaMemGetInfo(&free, &all) == cudaSuccess && all > free)
    d->used = all - free;
  if (code == cudaSuccess) return MR_OK;
  d->stream = NULL;
  return mr_fail(diag, MR_ERR_UNAVAILABLE, "device cuda:%u: %s cannot be opened: %s", d->number,
                 d->name, mr__cuda_error(code, text));
}

/* Opens the device, once: the answer stays. */
static void cuda_device_open(const char *number) {
  pthread_mutex_lock(&state.lock);
  if (!state.opened && cuda_device_start(&state.device, number, &state.diag) < 0)
    state.device.stream = NULL;
  state.opened = true;
  pthread_mutex_unlock(&state.lock);
}

mr_err_t mr__cuda_device(const mr_cuda_device_t **d, mr_diag_t *diag) {
  cuda_device_open(NULL);
  *d = &state.device;
  if (state.device.described) return MR_OK;
  if (!state.device.stream) return mr_diag_relay(diag, state.diag.code, &state.diag);
  if (current != state.device.number + 1) {
    state.device.cu->cudaSetDevice((int)state.device.number);
    current = state.device.number + 1;
  }
  return MR_OK;
}

cudaStream_t mr__cuda_stream(const mr_cuda_device_t *d) {
  return recording ? recording->stream : d->stream;
}

cudaStream_t mr__cuda_queue(const mr_cuda_device_t *d, int queue) {
  return queue == MR_CUDA_COMMANDS ? d->stream : d->beside[queue].stream;
}

void mr__cuda_record(mr_cuda_recording_t *r) { recording = r; }

mr_cuda_recording_t *mr__cuda_recording(void) { return recording; }

mr_err_t mr__cuda_open(const char *number, mr_diag_t *diag) {
  const mr_cuda_device_t *d;
  unsigned at;
  MR_TRY(mr__device_number("cuda", "MILLRACE_CUDA", number, &at, diag));
  cuda_device_open(number);
  MR_TRY(mr__cuda_device(&d, diag));
  if (d->described)
    return mr_fail(diag, MR_ERR_CONFIG, "device = cuda: this process plans for %s, as described",
                   d->name);
  if (!number || at == d->number) return MR_OK;
  return mr_fail(diag, MR_ERR_CONFIG,
                 "device = cuda:%s: this process computes on cuda:%u, and a process has one CUDA "
                 "device",
                 number, d->number);
}

mr_err_t mr__cuda_open_described(const char *what, mr_diag_t *diag) {
  mr_cuda_described_t read;
  mr_cuda_device_t *d = &state.device;
  MR_TRY(mr__cuda_described_read(what, &read, diag));
  pthread_mutex_lock(&state.lock);
  bool free = !state.opened || (d->described && !memcmp(&read, &state.described, sizeof read));
  if (free && !state.opened) {
    state.described = read;
    *d = (mr_cuda_device_t){.cu = mr__cuda_api(),
                            .major = (int)read.major,
                            .minor = (int)read.minor,
                            .processors = (int)read.processors,
                            .memory = read.memory,
                            .described = &state.described};
    memcpy(d->name, read.name, sizeof d->name);
    state.opened = true;
  }
  pthread_mutex_unlock(&state.lock);
  if (free) return MR_OK;
  return mr_fail(diag, MR_ERR_CONFIG,
                 "device = cuda:described=%.60s: this process has opened another device of CUDA",
                 what);
}

void mr__cuda_failed_by(const char *why, const char *what) {
  if (recording) {
    if (!*recording->why)
      snprintf(recording->why, sizeof recording->why, "%s failed with %s", what, why);
    return;
  }
  int none = 0;
  if (!atomic_compare_exchange_strong_explicit(&state.failed, &none, 1, memory_order_relaxed,
                                               memory_order_relaxed))
    return;
  snprintf(state.why, sizeof state.why, "%s failed with %s", what, why);
  atomic_store_explicit(&state.failed, 2, memory_order_release); /* with the acquire in usable */
  mr_notice("device cuda: %s: %s; its results are NaN from here on", state.device.name, state.why);
}

void mr__cuda_failed(cudaError_t code, const char *what) {
  char text[160];
  mr__cuda_failed_by(mr__cuda_error(code, text), what);
}

void mr__cuda_refused(const mr_call_t *c, const char *why) {
  char what[200];
  snprintf(what, sizeof what, "%s%s%s", c->eqn->op->name, *c->eqn->scope ? " in " : "",
           c->eqn->scope);
  mr__cuda_failed_by(why, what);
}

void mr__cuda_ran(const mr_cuda_device_t *d, const mr_call_t *c, cudaError_t code) {
  char text[160];
  if (code == cudaSuccess && mr__device_waits())
    code = d->cu->cudaStreamSynchronize(mr__cuda_stream(d));
  if (code != cudaSuccess) mr__cuda_refused(c, mr__cuda_error(code, text));
}

mr_err_t mr__cuda_usable(mr_diag_t *diag) {
  const mr_cuda_device_t *d;
  MR_TRY(mr__cuda_device(&d, diag));
  int failed = atomic_load_explicit(&state.failed, memory_order_acquire); /* release: failed_by */
  if (!failed) return MR_OK;
  return mr_fail(diag, MR_ERR_UNAVAILABLE, "device cuda: %s: %s", d->name,
                 failed == 2 ? state.why : "a command has failed");
}
