/* Finds and opens the device, once a process: all devices of all platforms are numbered in one
   list, and MILLRACE_OPENCL names one.  A command that fails later, during a run that cannot report
   it, is remembered here and sent as a notice, once. */
#include "model/backends/opencl/device.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

enum { PLATFORMS = 8, DEVICES = 32 };

static struct {
  pthread_once_t once;
  mr_opencl_device_t device;
  mr_diag_t diag;     /* why the device is missing */
  _Atomic int failed; /* relaxed: 1 after the first failed command, with its notice sent */
} state = {.once = PTHREAD_ONCE_INIT};

/* All devices of all platforms, up to n. */
static cl_uint devices_list(const mr_opencl_api_t *cl, cl_device_id *id, cl_uint n) {
  cl_platform_id platform[PLATFORMS];
  cl_uint platforms = 0, all = 0;
  if (cl->clGetPlatformIDs(PLATFORMS, platform, &platforms) != CL_SUCCESS) return 0;
  for (cl_uint p = 0; p < platforms && p < PLATFORMS && all < n; p++) {
    cl_uint found = 0;
    if (cl->clGetDeviceIDs(platform[p], CL_DEVICE_TYPE_ALL, n - all, id + all, &found) ==
        CL_SUCCESS)
      all += found < n - all ? found : n - all;
  }
  return all;
}

static mr_err_t device_choose(const mr_opencl_api_t *cl, cl_device_id *out, mr_diag_t *diag) {
  cl_device_id id[DEVICES];
  cl_uint n = devices_list(cl, id, DEVICES);
  const char *wish = getenv("MILLRACE_OPENCL");
  char *end = NULL;
  errno = 0;
  unsigned long at = wish && *wish ? strtoul(wish, &end, 10) : 0;
  if (wish && *wish && (*end || errno || *wish == '-' || *wish == '+'))
    return mr_fail(diag, MR_ERR_CONFIG, "MILLRACE_OPENCL = %s: want the number of a device, from 0",
                   wish);
  if (!n)
    return mr_fail(diag, MR_ERR_UNAVAILABLE,
                   "device opencl: no platform has a device; install a driver (pocl-opencl-icd "
                   "computes on the CPU)");
  if (at >= n)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "MILLRACE_OPENCL = %s: this machine has %u device%s, want 0 to %u", wish, n,
                   n == 1 ? "" : "s", n - 1);
  *out = id[at];
  return MR_OK;
}

static void device_ask(mr_opencl_device_t *d) {
  cl_ulong memory = 0;
  cl_device_fp_config wide = 0, single = 0;
  d->cl->clGetDeviceInfo(d->id, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof memory, &memory, NULL);
  d->cl->clGetDeviceInfo(d->id, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof wide, &wide, NULL);
  d->cl->clGetDeviceInfo(d->id, CL_DEVICE_SINGLE_FP_CONFIG, sizeof single, &single, NULL);
  d->cl->clGetDeviceInfo(d->id, CL_DEVICE_NAME, sizeof d->name - 1, d->name, NULL);
  d->memory = (size_t)memory;
  d->f64 = wide != 0;
  d->rounds = (single & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
}

static mr_err_t device_start(mr_opencl_device_t *d, mr_diag_t *diag) {
  cl_int code;
  char text[40];
  MR_TRY(mr__opencl_api(&d->cl, diag));
  MR_TRY(device_choose(d->cl, &d->id, diag));
  device_ask(d);
  d->context = d->cl->clCreateContext(NULL, 1, &d->id, NULL, NULL, &code);
  if (code == CL_SUCCESS) d->queue = d->cl->clCreateCommandQueue(d->context, d->id, 0, &code);
  if (code == CL_SUCCESS) return MR_OK;
  return mr_fail(diag, MR_ERR_UNAVAILABLE, "device opencl: %s cannot be opened: %s", d->name,
                 mr__opencl_error(code, text));
}

static void device_open(void) {
  if (device_start(&state.device, &state.diag) < 0) state.device.queue = NULL;
}

mr_err_t mr__opencl_device(const mr_opencl_device_t **d, mr_diag_t *diag) {
  pthread_once(&state.once, device_open);
  *d = &state.device;
  if (state.device.queue) return MR_OK;
  return mr_diag_relay(diag, state.diag.code, &state.diag);
}

void mr__opencl_failed(cl_int code, const char *what) {
  char text[40];
  if (!atomic_exchange_explicit(&state.failed, 1, memory_order_relaxed))
    mr_notice("device opencl: %s: %s failed with %s; its results are NaN from here on",
              state.device.name, what, mr__opencl_error(code, text));
}

mr_err_t mr__opencl_usable(mr_diag_t *diag) {
  const mr_opencl_device_t *d;
  MR_TRY(mr__opencl_device(&d, diag));
  if (!atomic_load_explicit(&state.failed, memory_order_relaxed)) return MR_OK;
  return mr_fail(diag, MR_ERR_UNAVAILABLE, "device opencl: %s has failed before in this process",
                 d->name);
}
