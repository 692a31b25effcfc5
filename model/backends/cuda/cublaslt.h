/* cuBLASLt, NVIDIA's library for products of matrices: its calls through a
   table, opened at run time. */
#ifndef MR_MODEL_BACKENDS_CUDA_CUBLASLT_H
#define MR_MODEL_BACKENDS_CUDA_CUBLASLT_H

#include <cublasLt.h>
#include <stddef.h>

#include "base/err.h"

#define MR_CUBLASLT_CALLS(X)              \
  X(cublasLtGetVersion)                   \
  X(cublasLtGetStatusName)                \
  X(cublasLtCreate)                       \
  X(cublasLtDestroy)                      \
  X(cublasLtMatmulDescCreate)             \
  X(cublasLtMatmulDescDestroy)            \
  X(cublasLtMatmulDescSetAttribute)       \
  X(cublasLtMatrixLayoutCreate)           \
  X(cublasLtMatrixLayoutDestroy)          \
  X(cublasLtMatrixLayoutSetAttribute)     \
  X(cublasLtMatmulPreferenceCreate)       \
  X(cublasLtMatmulPreferenceDestroy)      \
  X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatmulAlgoGetHeuristic)       \
  X(cublasLtMatmulAlgoCheck)              \
  X(cublasLtMatmulAlgoConfigGetAttribute) \
  X(cublasLtMatmul)

typedef struct mr_cublaslt {
#define MR_CUBLASLT_POINTER(name) __typeof__(&name) name;
  MR_CUBLASLT_CALLS(MR_CUBLASLT_POINTER)
#undef MR_CUBLASLT_POINTER
  size_t version; /* 130100 is 13.1.0 */
  char path[512]; /* its file */
} mr_cublaslt_t;

/* Points *lt at the table, which is static.  MR_OK; MR_ERR_UNAVAILABLE if there
   is no library of a version that this program knows, or one that lacks a call:
   the sentence says which, and that products then have generated kernels.  Any
   thread; the first call loads the library. */
mr_err_t mr__cublaslt(const mr_cublaslt_t **lt, mr_diag_t *diag);

/* Puts another table in its place, which must stay; NULL: the library's again.
   For tests: no other thread may use the backend. */
void mr__cublaslt_put(const mr_cublaslt_t *table);

#endif
