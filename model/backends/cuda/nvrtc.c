/* Opens NVRTC once, at run time: a program that starts no kernel needs no compiler, and a machine
   may have it as a Python package alone. */
#include "model/backends/cuda/nvrtc.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/library.h"
#include "model/backends/cuda/find.h"

static struct {
  pthread_once_t once;
  mr_nvrtc_t own;
  const char *missing; /* a call that the library lacks; "" without a library, NULL: all is there */
  char builtins[48];   /* the name of the part that is missing; empty: it is there */
  const mr_nvrtc_t *put;
} library = {.once = PTHREAD_ONCE_INIT};

/* Opens `name` in the folder of `file`. */
static bool open_beside(const char *file, const char *name) {
  char path[PATH_MAX];
  const char *end = strrchr(file, '/');
  int n = end ? snprintf(path, sizeof path, "%.*s/%s", (int)(end - file), file, name) : PATH_MAX;
  return n < PATH_MAX && dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* NVRTC opens libnvrtc-builtins at its first compile by the bare name and has no RUNPATH, so that
   outside the loader's folders, as in a Python package, every compile would fail.  The loader finds
   by that name what is open already: it is opened here, beside the library or beside the file that
   a link stands for, and stays open. */
static void open_builtins(const mr_nvrtc_t *n) {
  char name[sizeof library.builtins], real[PATH_MAX];
  snprintf(name, sizeof name, "libnvrtc-builtins.so.%d.%d", n->major, n->minor);
  if (open_beside(n->path, name) || (realpath(n->path, real) && open_beside(real, name)) ||
      dlopen(name, RTLD_NOW | RTLD_LOCAL))
    return;
  memcpy(library.builtins, name, sizeof name);
}

#define CALL(name) {#name, offsetof(mr_nvrtc_t, name)},
static const mr_library_call_t calls[] = {MR_NVRTC_CALLS(CALL){0}};
#undef CALL

static void nvrtc_open(void) {
  static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", NULL};
  mr_nvrtc_t *n = &library.own;
  void *lib = mr__cuda_find(names, n->path, sizeof n->path);
  library.missing = mr_library_calls(lib, calls, n);
  if (library.missing) return;
  n->nvrtcVersion(&n->major, &n->minor);
  open_builtins(n);
}

mr_err_t mr__nvrtc(const mr_nvrtc_t **nvrtc, mr_diag_t *diag) {
  if (library.put) return *nvrtc = library.put, MR_OK;
  pthread_once(&library.once, nvrtc_open);
  if (*library.builtins)
    return mr_fail(diag, MR_ERR_UNAVAILABLE,
                   "device cuda: %s compiles nothing without %s, which lies neither beside it nor "
                   "where the loader looks; install all of CUDA's NVRTC (Python's "
                   "nvidia-cuda-nvrtc is enough)",
                   library.own.path, library.builtins);
  if (!library.missing && library.own.major == 12 && library.own.minor < 1)
    return mr_fail(
        diag, MR_ERR_UNAVAILABLE,
        "device cuda: %s is NVRTC 12.0, whose kernels have too few arguments; want 12.1 or "
        "newer",
        library.own.path);
  if (!library.missing) return *nvrtc = &library.own, MR_OK;
  if (!*library.missing && *library.own.path)
    return mr_fail(diag, MR_ERR_UNAVAILABLE,
                   "device cuda: NVRTC, which compiles the kernels, cannot be loaded: %s",
                   library.own.path);
  if (!*library.missing)
    return mr_fail(
        diag, MR_ERR_UNAVAILABLE,
        "device cuda: libnvrtc.so.13 (or .12), which compiles the kernels, is not found; "
        "install CUDA's NVRTC (Python's nvidia-cuda-nvrtc is enough), and name its folder "
        "in MILLRACE_CUDA_LIBRARIES if it lies in an unusual place");
  return mr_fail(diag, MR_ERR_UNAVAILABLE, "device cuda: %s lacks %s, want NVRTC 12.1 or newer",
                 library.own.path, library.missing);
}

void mr__nvrtc_put(const mr_nvrtc_t *table) { library.put = table; }
