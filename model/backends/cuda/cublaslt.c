/* Opens cuBLASLt once.  Its names carry the major version of CUDA; structures
   that the table's calls take are the same in 12 and 13. */
#include "model/backends/cuda/cublaslt.h"

#include <pthread.h>

#include "base/library.h"
#include "model/backends/cuda/find.h"

static struct {
  pthread_once_t once;
  mr_cublaslt_t own;
  const char *missing; /* a call that the library lacks; "" without a library,
                          NULL: all is there */
  const mr_cublaslt_t *put;
} cublaslt = {.once = PTHREAD_ONCE_INIT};

#define CALL(name) {#name, offsetof(mr_cublaslt_t, name)},
static const mr_library_call_t calls[] = {MR_CUBLASLT_CALLS(CALL){0}};
#undef CALL

static void cublaslt_open(void) {
  static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL};
  mr_cublaslt_t *lt = &cublaslt.own;
  void *lib = mr__cuda_find(names, lt->path, sizeof lt->path);
  cublaslt.missing = mr_library_calls(lib, calls, lt);
  if (!cublaslt.missing) lt->version = lt->cublasLtGetVersion();
}

mr_err_t mr__cublaslt(const mr_cublaslt_t **lt, mr_diag_t *diag) {
  if (cublaslt.put) return *lt = cublaslt.put, MR_OK;
  pthread_once(&cublaslt.once, cublaslt_open);
  if (!cublaslt.missing) return *lt = &cublaslt.own, MR_OK;
  if (!*cublaslt.missing && *cublaslt.own.path)
    return mr_fail(diag, MR_ERR_UNAVAILABLE,
                   "device cuda: cuBLASLt cannot be loaded (%s), so that products are computed by "
                   "generated kernels, which are slow",
                   cublaslt.own.path);
  if (!*cublaslt.missing)
    return mr_fail(diag, MR_ERR_UNAVAILABLE,
                   "device cuda: libcublasLt.so.13 (or .12) is not found, so "
                   "that products are "
                   "computed by generated kernels, which are slow; install "
                   "CUDA's cuBLAS (Python's "
                   "nvidia-cublas is enough), or name its folder in "
                   "MILLRACE_CUDA_LIBRARIES");
  return mr_fail(diag, MR_ERR_UNAVAILABLE,
                 "device cuda: %s lacks %s, so that products are computed by "
                 "generated kernels, "
                 "which are slow; want cuBLAS 12 or newer",
                 cublaslt.own.path, cublaslt.missing);
}

void mr__cublaslt_put(const mr_cublaslt_t *table) { cublaslt.put = table; }
