/* Finds, opens and closes devices: all of all platforms are numbered in one list, and
   MILLRACE_OPENCL names the usual one.  A command that fails later, during a run that cannot report
   it, is remembered with its device and sent as a notice, once. */
#include "model/backends/opencl/device.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "model/backends/kernels/kernel.h"
#include "model/backends/opencl/program.h"
#include "model/exec/device.h"
#include "model/ir/op.h"

enum { PLATFORMS = 8 };

cl_uint mr__opencl_devices(const mr_opencl_api_t *cl, cl_device_id *id, cl_uint n) {
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

static mr_err_t device_choose(mr_opencl_device_t *d, const char *number, mr_diag_t *diag) {
  cl_device_id id[MR_OPENCL_DEVICES];
  char text[160];
  cl_uint n = mr__opencl_devices(d->cl, id, MR_OPENCL_DEVICES);
  if (!n)
    return mr_fail(diag, MR_ERR_UNAVAILABLE,
                   "device opencl: no platform has a device; install a driver (pocl-opencl-icd "
                   "computes on the CPU)");
  if (d->number >= n)
    return mr_fail(diag, MR_ERR_CONFIG, "%s: this machine has %u device%s, want 0 to %u",
                   mr__device_wish("opencl", "MILLRACE_OPENCL", number, text), n, n == 1 ? "" : "s",
                   n - 1);
  d->id = id[d->number];
  return MR_OK;
}

static void device_ask(mr_opencl_device_t *d) {
  cl_ulong memory = 0, largest = 0;
  cl_device_fp_config wide = 0, single = 0;
  d->cl->clGetDeviceInfo(d->id, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof memory, &memory, NULL);
  d->cl->clGetDeviceInfo(d->id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof largest, &largest, NULL);
  d->cl->clGetDeviceInfo(d->id, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof wide, &wide, NULL);
  d->cl->clGetDeviceInfo(d->id, CL_DEVICE_SINGLE_FP_CONFIG, sizeof single, &single, NULL);
  d->cl->clGetDeviceInfo(d->id, CL_DEVICE_NAME, sizeof d->name - 1, d->name, NULL);
  d->memory = (size_t)memory;
  d->largest = (size_t)largest;
  d->f64 = wide != 0;
  d->rounds = (single & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
}

/* Refuses a device that cannot run the kernels; notes what a group may share. */
static mr_err_t device_fits(mr_opencl_device_t *d, mr_diag_t *diag) {
  char version[256] = "";
  cl_bool ready = CL_TRUE, compiles = CL_TRUE, little = CL_TRUE;
  cl_ulong shared = 0;
  size_t group = 0;
  const char *lacks = NULL;
  d->cl->clGetDeviceInfo(d->id, CL_DEVICE_VERSION, sizeof version - 1, version, NULL);
  d->cl->clGetDeviceInfo(d->id, CL_DEVICE_AVAILABLE, sizeof ready, &ready, NULL);
  d->cl->clGetDeviceInfo(d->id, CL_DEVICE_COMPILER_AVAILABLE, sizeof compiles, &compiles, NULL);
  d->cl->clGetDeviceInfo(d->id, CL_DEVICE_ENDIAN_LITTLE, sizeof little, &little, NULL);
  d->cl->clGetDeviceInfo(d->id, CL_DEVICE_LOCAL_MEM_SIZE, sizeof shared, &shared, NULL);
  d->cl->clGetDeviceInfo(d->id, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof group, &group, NULL);
  d->shared = shared;
  if (group < MR_KERNEL_GROUP) lacks = "work-groups of 256 items";
  if (shared < 32 * 1024) lacks = "32 KiB of memory that a work-group shares";
  if (!strncmp(version, "OpenCL 1.0", 10) || !strncmp(version, "OpenCL 1.1", 10))
    lacks = "OpenCL 1.2";
  if (!little) lacks = "memory in little-endian order";
  if (!compiles) lacks = "a compiler";
  if (!ready) lacks = "readiness: its driver says that it is not available";
  if (!lacks) return MR_OK;
  return mr_fail(diag, MR_ERR_UNAVAILABLE, "device opencl:%u: %s (%s) lacks %s", d->number, d->name,
                 version, lacks);
}

/* Frees what device_start has made of d. */
static void device_end(mr_opencl_device_t *d) {
  for (int i = 0; i < 2; i++)
    if (d->copies[i]) d->cl->clReleaseCommandQueue(d->copies[i]);
  if (d->queue) d->cl->clReleaseCommandQueue(d->queue);
  if (d->context) d->cl->clReleaseContext(d->context);
  pthread_mutex_destroy(&d->heap.lock);
  pthread_mutex_destroy(&d->programs.lock);
  free(d);
}

static mr_err_t device_start(mr_opencl_device_t *d, const char *number, mr_diag_t *diag) {
  cl_int code;
  char text[40], unread[2];
  MR_TRY(mr__opencl_api(&d->cl, diag));
  MR_TRY(mr__opencl_probe(unread, sizeof unread, diag));
  MR_TRY(device_choose(d, number, diag));
  device_ask(d);
  MR_TRY(device_fits(d, diag));
  d->context = d->cl->clCreateContext(NULL, 1, &d->id, NULL, NULL, &code);
  for (int i = 0; i < 2 && code == CL_SUCCESS; i++)
    d->copies[i] = d->cl->clCreateCommandQueue(d->context, d->id, 0, &code);
  if (code == CL_SUCCESS) d->queue = d->cl->clCreateCommandQueue(d->context, d->id, 0, &code);
  if (code == CL_SUCCESS) return MR_OK;
  return mr_fail(diag, MR_ERR_UNAVAILABLE, "device opencl:%u: %s cannot be opened: %s", d->number,
                 d->name, mr__opencl_error(code, text));
}

mr_err_t mr__opencl_open(mr_device_t *device, const char *number, const mr_target_t *target,
                         mr_diag_t *diag) {
  mr_opencl_device_t *d = calloc(1, sizeof *d);
  if (!d) return mr_no_memory(diag, "device %s", device->name);
  pthread_mutex_init(&d->heap.lock, NULL);
  pthread_mutex_init(&d->programs.lock, NULL);
  d->number = (unsigned)device->index;
  d->target = *target;
  d->target.device = device;
  mr_err_t e = device_start(d, number, diag);
  if (e < 0) return device_end(d), e;
  device->context = d;
  return MR_OK;
}

/* Of a context that CLBlast has compiled kernels for, the library keeps a part until the process
   ends: its own cache is of all devices. */
void mr__opencl_close(mr_device_t *device) {
  mr_opencl_device_t *d = mr__opencl_device(device);
  for (int i = 0; i < 2; i++) d->cl->clFinish(d->copies[i]);
  d->cl->clFinish(d->queue);
  assert(!d->heap.n);
  free(d->heap.region);
  mr__opencl_programs_fini(d);
  device_end(d);
}

void mr__opencl_failed(mr_opencl_device_t *d, cl_int code, const char *what) {
  char text[40];
  int none = 0;
  if (!atomic_compare_exchange_strong_explicit(&d->failed, &none, 1, memory_order_relaxed,
                                               memory_order_relaxed))
    return;
  snprintf(d->why, sizeof d->why, "%s failed with %s", what, mr__opencl_error(code, text));
  atomic_store_explicit(&d->failed, 2, memory_order_release); /* with the acquire in usable */
  mr_notice("device opencl: %s (opencl:%u): %s; its results are NaN from here on", d->name,
            d->number, d->why);
}

void mr__opencl_ran(mr_opencl_device_t *d, const mr_call_t *c, cl_int code) {
  char what[200];
  if (code == CL_SUCCESS && mr__device_waits()) code = d->cl->clFinish(d->queue);
  if (code == CL_SUCCESS) return;
  snprintf(what, sizeof what, "%s%s%s", c->eqn->op->name, *c->eqn->scope ? " in " : "",
           c->eqn->scope);
  mr__opencl_failed(d, code, what);
}

mr_err_t mr__opencl_usable(const mr_device_t *device, mr_diag_t *diag) {
  mr_opencl_device_t *d = mr__opencl_device(device);
  int failed = atomic_load_explicit(&d->failed, memory_order_acquire); /* release: failed */
  if (!failed) return MR_OK;
  return mr_fail(diag, MR_ERR_UNAVAILABLE, "device opencl: %s (opencl:%u): %s", d->name, d->number,
                 failed == 2 ? d->why : "a command has failed");
}
