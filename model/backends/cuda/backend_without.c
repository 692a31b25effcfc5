/* The place of the CUDA backend in a build without CUDA's toolkit: none of its devices can be
   opened, and trying says why. */
#include "model/exec/backend.h"
#include "model/exec/device.h"

static mr_err_t no_cuda_open(mr_device_t *d, const char *number, mr_diag_t *diag) {
  return mr_fail(diag, MR_ERR_UNAVAILABLE,
                 "device = cuda: this build has no CUDA backend; install CUDA's toolkit (12.8 or "
                 "newer) and build with -DMILLRACE_CUDA=ON, or use device=opencl or device=cpu");
}

static mr_err_t no_cuda_key(const char *number, char key[MR_DEVICE_KEY], mr_diag_t *diag) {
  return mr__device_number("cuda", "MILLRACE_CUDA", number, key, diag);
}

static void no_cuda_describe(void (*say)(void *arg, const char *line), void *arg) {
  mr_diag_t why = {0};
  no_cuda_open(NULL, NULL, &why);
  say(arg, why.text);
}

static const mr_device_ops_t no_cuda_device_ops = {.key = no_cuda_key,
                                                   .open = no_cuda_open,
                                                   .open_described = no_cuda_open,
                                                   .describe = no_cuda_describe};

/* Without an open device no other table is read. */
const mr_backend_t mr_backend_cuda = {.name = "cuda", .align = 256, .device = &no_cuda_device_ops};
