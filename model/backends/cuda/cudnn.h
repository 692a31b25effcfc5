/* cuDNN's backend API, by which graphs of operations become one kernel: its
   calls through a table, opened at run time. */
#ifndef MR_MODEL_BACKENDS_CUDA_CUDNN_H
#define MR_MODEL_BACKENDS_CUDA_CUDNN_H

#include <cudnn_backend.h>
#include <stddef.h>

#include "base/err.h"

#define MR_CUDNN_CALLS(X)          \
  X(cudnnGetVersion)               \
  X(cudnnGetErrorString)           \
  X(cudnnGetLastErrorString)       \
  X(cudnnCreate)                   \
  X(cudnnDestroy)                  \
  X(cudnnSetStream)                \
  X(cudnnBackendCreateDescriptor)  \
  X(cudnnBackendDestroyDescriptor) \
  X(cudnnBackendFinalize)          \
  X(cudnnBackendSetAttribute)      \
  X(cudnnBackendGetAttribute)      \
  X(cudnnBackendExecute)

/* LEAST, 9.8: graphs for a device that is described, and a backward pass that
   clears its accumulator itself.  The others follow NVIDIA's cudnn-frontend
   (include/cudnn_frontend/node): BAD, 9.10.0 and 9.10.1, have known bugs in the
   forward pass and are refused (sdpa_support_surface.h); before ANY_T, 9.16, the
   backward pass of a number of rows that is no multiple of 128 needs
   a padding mask (scaled_dot_product_flash_attention.h), which these graphs do
   not have. */
enum {
  MR_CUDNN_LEAST = 90800,
  MR_CUDNN_BAD_FIRST = 91000,
  MR_CUDNN_BAD_LAST = 91001,
  MR_CUDNN_ANY_T = 91600
};

typedef struct mr_cudnn {
#define MR_CUDNN_POINTER(name) __typeof__(&name) name;
  MR_CUDNN_CALLS(MR_CUDNN_POINTER)
#undef MR_CUDNN_POINTER
  size_t version; /* 91900 is 9.19.0 */
  char path[512]; /* its file */
} mr_cudnn_t;

/* Points *cudnn at the table, which is static.  MR_OK; MR_ERR_UNAVAILABLE if
   there is no library, one that is too old or has known bugs, or one that lacks
   a call: the sentence says which, and that attention is then computed by
   generated kernels.  Any thread; the first call loads the library, behind
   NVRTC, which its engines need. */
mr_err_t mr__cudnn(const mr_cudnn_t **cudnn, mr_diag_t *diag);

/* Whether this version's attention is taken: MR_OK, or MR_ERR_UNAVAILABLE as
   mr__cudnn, which calls it. path: of the library, for the sentence.  Pure. */
mr_err_t mr__cudnn_fits(size_t version, const char *path, mr_diag_t *diag);

/* Puts another table in its place, which must stay; NULL: the library's again.
   For tests: no other thread may use the backend. */
void mr__cudnn_put(const mr_cudnn_t *table);

#endif
