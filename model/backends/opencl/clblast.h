/* CLBlast, a library for products of matrices on OpenCL devices: its calls through a table, opened
   at run time. */
#ifndef MR_MODEL_BACKENDS_OPENCL_CLBLAST_H
#define MR_MODEL_BACKENDS_OPENCL_CLBLAST_H

#define CL_TARGET_OPENCL_VERSION 120
#include <clblast_c.h>

#include "base/err.h"

#define MR_CLBLAST_CALLS(X)     \
  X(CLBlastSgemm)               \
  X(CLBlastDgemm)               \
  X(CLBlastSgemmStridedBatched) \
  X(CLBlastDgemmStridedBatched)

typedef struct mr_clblast {
#define MR_CLBLAST_POINTER(name) __typeof__(&name) name;
  MR_CLBLAST_CALLS(MR_CLBLAST_POINTER)
#undef MR_CLBLAST_POINTER
  char path[512]; /* its file */
} mr_clblast_t;

/* Points *blas at the table, which is static.  MR_OK; MR_ERR_UNAVAILABLE if there is no library, or
   one that lacks a call: the sentence says what then computes products.  Any thread; the first call
   loads the library. */
mr_err_t mr__clblast(const mr_clblast_t **blas, mr_diag_t *diag);

#endif
