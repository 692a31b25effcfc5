/* The place of the CUDA backend in a build without CUDA's toolkit: it compiles nothing and says
   why. */
#include "model/exec/backend.h"

static mr_err_t no_cuda_check(mr_diag_t *diag) {
  return mr_fail(diag, MR_ERR_UNAVAILABLE,
                 "device = cuda: this build has no CUDA backend; install CUDA's toolkit (12.8 or "
                 "newer) and build with -DMILLRACE_CUDA=ON, or use device=opencl or device=cpu");
}
static mr_err_t no_cuda_open(const char *number, mr_diag_t *diag) { return no_cuda_check(diag); }
static void no_cuda_describe(void (*say)(void *arg, const char *line), void *arg) {
  mr_diag_t why = {0};
  no_cuda_check(&why);
  say(arg, why.text);
}
static void *no_cuda_take(size_t bytes) { return NULL; }
static void no_cuda_give(void *data, size_t bytes) {}
static size_t no_cuda_room(void) { return 0; }
static void no_cuda_copy(void *to, const void *from, size_t bytes, mr_copy_way_t way) {}

static void no_cuda_leave(void) {}

/* check refuses before anything else is called, except what is called for all backends. */
const mr_backend_t mr_backend_cuda = {.name = "cuda",
                                      .align = 256,
                                      .open = no_cuda_open,
                                      .open_described = no_cuda_open,
                                      .check = no_cuda_check,
                                      .describe = no_cuda_describe,
                                      .take = no_cuda_take,
                                      .give = no_cuda_give,
                                      .room = no_cuda_room,
                                      .copy = no_cuda_copy,
                                      .leave = no_cuda_leave};
