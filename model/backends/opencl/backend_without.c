/* The place of the OpenCL backend in a build without OpenCL's headers: none of its devices can be
   opened, and trying says why. */
#include "base/feature.h"
#include "model/exec/backend.h"
#include "model/exec/device.h"

static mr_err_t without_open(mr_device_t *d, const char *number, mr_diag_t *diag) {
  return mr_without(diag, "device opencl", "OPENCL");
}

static mr_err_t without_key(const char *number, char key[MR_DEVICE_KEY], mr_diag_t *diag) {
  return mr__device_number("opencl", "MILLRACE_OPENCL", number, key, diag);
}

static void without_describe(void (*say)(void *arg, const char *line), void *arg) {
  mr_diag_t why = {0};
  without_open(NULL, NULL, &why);
  say(arg, why.text);
}

static const mr_device_ops_t without_device_ops = {
    .key = without_key, .open = without_open, .describe = without_describe};

/* Without an open device no other table is read. */
const mr_backend_t mr_backend_opencl = {
    .name = "opencl", .align = 256, .device = &without_device_ops};
