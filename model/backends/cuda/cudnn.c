/* Opens cuDNN once, and refuses a version that is older than what is asked of it, or known to be
   wrong.  Only libcudnn.so.9 is named: it opens its parts itself.  Its engines compile kernels when
   a graph is planned, by NVRTC, which they open by name: where only this program knows its folder,
   it has to be open before, or every plan fails. */
#include "model/backends/cuda/cudnn.h"

#include <pthread.h>

#include "base/library.h"
#include "model/backends/cuda/find.h"
#include "model/backends/cuda/nvrtc.h"

static struct {
  pthread_once_t once;
  mr_cudnn_t own;
  const char *missing; /* a call that the library lacks; "" without a library,
                          NULL: all is there */
  const mr_cudnn_t *put;
} cudnn9 = {.once = PTHREAD_ONCE_INIT};

#define CALL(name) {#name, offsetof(mr_cudnn_t, name)},
static const mr_library_call_t calls[] = {MR_CUDNN_CALLS(CALL){0}};
#undef CALL

static void cudnn_open(void) {
  static const char *const names[] = {"libcudnn.so.9", NULL};
  const mr_nvrtc_t *nvrtc;
  mr_cudnn_t *c = &cudnn9.own;
  mr__nvrtc(&nvrtc, NULL); /* what is missing is said where a kernel needs it */
  void *lib = mr__cuda_find(names, c->path, sizeof c->path);
  cudnn9.missing = mr_library_calls(lib, calls, c);
  if (!cudnn9.missing) c->version = c->cudnnGetVersion();
}

#define OPENED "so that attention is computed by generated kernels, which may be slow"

mr_err_t mr__cudnn_fits(size_t version, const char *path, mr_diag_t *diag) {
  if (version < MR_CUDNN_LEAST)
    return mr_fail(diag, MR_ERR_UNAVAILABLE,
                   "device cuda: %s is cuDNN %zu.%zu, " OPENED "; want 9.8 or newer", path,
                   version / 10000, version / 100 % 100);
  if (version >= MR_CUDNN_BAD_FIRST && version <= MR_CUDNN_BAD_LAST)
    return mr_fail(diag, MR_ERR_UNAVAILABLE,
                   "device cuda: %s is cuDNN %zu.%zu.%zu, whose attention has known bugs, " OPENED
                   "; want 9.10.2 or newer",
                   path, version / 10000, version / 100 % 100, version % 100);
  return MR_OK;
}

mr_err_t mr__cudnn(const mr_cudnn_t **cudnn, mr_diag_t *diag) {
  pthread_once(&cudnn9.once, cudnn_open);
  const mr_cudnn_t *c = cudnn9.put ? cudnn9.put : &cudnn9.own;
  if (!cudnn9.put && cudnn9.missing && !*cudnn9.missing && *c->path)
    return mr_fail(diag, MR_ERR_UNAVAILABLE, "device cuda: cuDNN cannot be loaded (%s), " OPENED,
                   c->path);
  if (!cudnn9.put && cudnn9.missing && !*cudnn9.missing)
    return mr_fail(diag, MR_ERR_UNAVAILABLE,
                   "device cuda: libcudnn.so.9 is not found, " OPENED
                   "; install cuDNN 9 (Python's nvidia-cudnn-cu13 is enough), "
                   "or name its folder in "
                   "MILLRACE_CUDA_LIBRARIES");
  if (!cudnn9.put && cudnn9.missing)
    return mr_fail(diag, MR_ERR_UNAVAILABLE, "device cuda: %s lacks %s, " OPENED "; want cuDNN 9.8",
                   c->path, cudnn9.missing);
  MR_TRY(mr__cudnn_fits(c->version, c->path, diag));
  return *cudnn = c, MR_OK;
}

void mr__cudnn_put(const mr_cudnn_t *table) { cudnn9.put = table; }
