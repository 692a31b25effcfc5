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
  X(cudnnSetStream)                \
  X(cudnnBackendCreateDescriptor)  \
  X(cudnnBackendDestroyDescriptor) \
  X(cudnnBackendFinalize)          \
  X(cudnnBackendSetAttribute)      \
  X(cudnnBackendGetAttribute)      \
  X(cudnnBackendExecute)

/* 9.8: graphs for a device that is described, and a backward pass for any
   number of rows that clears its accumulator itself. */
enum { MR_CUDNN_LEAST = 90800 };

typedef struct mr_cudnn {
#define MR_CUDNN_POINTER(name) __typeof__(&name) name;
  MR_CUDNN_CALLS(MR_CUDNN_POINTER)
#undef MR_CUDNN_POINTER
  size_t version; /* 91900 is 9.19.0 */
  char path[512]; /* its file */
} mr_cudnn_t;

/* Points *cudnn at the table, which is static.  MR_OK; MR_ERR_UNAVAILABLE if
   there is no library, one that is too old, or one that lacks a call: the
   sentence says which, and that attention is then computed as separate
   products.  Any thread; the first call loads the library. */
mr_err_t mr__cudnn(const mr_cudnn_t **cudnn, mr_diag_t *diag);

/* Puts another table in its place, which must stay; NULL: the library's again.
   For tests: no other thread may use the backend. */
void mr__cudnn_put(const mr_cudnn_t *table);

#endif
