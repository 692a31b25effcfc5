/* Opens CLBlast once, at run time: a program needs it neither to start nor to compute on OpenCL.
   The version in its name is that of its calls, which take the buffers and queue of api.c. */
#include "model/backends/opencl/clblast.h"

#include <pthread.h>

#include "base/library.h"

static struct {
  pthread_once_t once;
  mr_clblast_t call;
  const char *missing; /* a call that the library lacks; "" without a library, NULL: all is there */
} library = {.once = PTHREAD_ONCE_INIT};

#define CALL(name) {#name, offsetof(mr_clblast_t, name)},
static const mr_library_call_t calls[] = {MR_CLBLAST_CALLS(CALL){0}};
#undef CALL

static void clblast_open(void) {
  void *lib = mr_library_open("libclblast.so.1", library.call.path, sizeof library.call.path);
  library.missing = mr_library_calls(lib, calls, &library.call);
}

mr_err_t mr__clblast(const mr_clblast_t **blas, mr_diag_t *diag) {
  pthread_once(&library.once, clblast_open);
  if (!library.missing) return *blas = &library.call, MR_OK;
  if (!*library.missing && *library.call.path)
    return mr_fail(diag, MR_ERR_UNAVAILABLE,
                   "device opencl: libclblast.so.1 cannot be loaded (%s), so that products are "
                   "computed by generated kernels, which are slow",
                   library.call.path);
  if (!*library.missing)
    return mr_fail(diag, MR_ERR_UNAVAILABLE,
                   "device opencl: libclblast.so.1 is not found, so that products are computed by "
                   "generated kernels, which are slow; install libclblast1");
  return mr_fail(diag, MR_ERR_UNAVAILABLE,
                 "device opencl: libclblast.so.1 lacks %s, so that products are computed by "
                 "generated kernels, which are slow; want CLBlast 1.5",
                 library.missing);
}
