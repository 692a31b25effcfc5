/* Opens NVRTC once, at run time: a program that starts no kernel needs no compiler, and a machine
   may have it as a Python package alone. */
#include "model/backends/cuda/nvrtc.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "model/backends/cuda/find.h"

static struct {
  pthread_once_t once;
  mr_nvrtc_t own;
  const char *missing; /* a call that the library lacks; "" without a library, NULL: all is there */
  const mr_nvrtc_t *put;
} library = {.once = PTHREAD_ONCE_INIT};

static void nvrtc_open(void) {
  static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", NULL};
  mr_nvrtc_t *n = &library.own;
  void *lib = mr__cuda_find(names, n->path, sizeof n->path);
  if (!lib) {
    library.missing = "";
    return;
  }
#define FIND(name)                    \
  {                                   \
    void *at = dlsym(lib, #name);     \
    if (!at) library.missing = #name; \
    memcpy(&n->name, &at, sizeof at); \
  }
  MR_NVRTC_CALLS(FIND)
#undef FIND
  if (!library.missing) n->nvrtcVersion(&n->major, &n->minor);
}

mr_err_t mr__nvrtc(const mr_nvrtc_t **nvrtc, mr_diag_t *diag) {
  if (library.put) return *nvrtc = library.put, MR_OK;
  pthread_once(&library.once, nvrtc_open);
  if (!library.missing) return *nvrtc = &library.own, MR_OK;
  if (!*library.missing)
    return mr_fail(
        diag, MR_ERR_UNAVAILABLE,
        "device cuda: libnvrtc.so.13 (or .12), which compiles the kernels, is not found; "
        "install CUDA's NVRTC (Python's nvidia-cuda-nvrtc is enough), and name its folder "
        "in MILLRACE_CUDA_LIBRARIES if it lies in an unusual place");
  return mr_fail(diag, MR_ERR_UNAVAILABLE, "device cuda: %s lacks %s, want NVRTC 12 or newer",
                 library.own.path, library.missing);
}

void mr__nvrtc_put(const mr_nvrtc_t *table) { library.put = table; }
