/* cuBLASLt's descriptors of a product, and the algorithm that computes it. */
#ifndef MR_MODEL_BACKENDS_CUDA_MATMUL_H
#define MR_MODEL_BACKENDS_CUDA_MATMUL_H

#include "model/backends/cuda/cublaslt.h"
#include "model/backends/cuda/device.h"
#include "model/backends/kernels/product.h"

typedef struct mr_cuda_matmul {
  const mr_cublaslt_t *lt;
  cublasLtMatmulDesc_t desc;
  cublasLtMatrixLayout_t a, b, d; /* NULL: not made */
} mr_cuda_matmul_t;

/* Describes p to cuBLASLt.  MR_OK; MR_ERR_UNAVAILABLE with the call that the
   library refuses.  The caller ends *m in any case.  Needs no device
   (matmul.c). */
mr_err_t mr__cuda_matmul(const mr_cublaslt_t *lt, const mr_product_t *p, mr_cuda_matmul_t *m,
                         mr_diag_t *diag);
void mr__cuda_matmul_fini(mr_cuda_matmul_t *m); /* cannot fail, empties *m */

/* Sets the address of m's bias.  The library reads no bias when it chooses or checks an algorithm,
   but takes the alignment of this address for that of every later one.  Returns its status
   (matmul.c). */
cublasStatus_t mr__cuda_matmul_bias(const mr_cuda_matmul_t *m, const void *bias);

enum { MR_CUDA_WORKSPACE = 64 << 20 }; /* bytes that an algorithm may ask for */

typedef enum mr_cuda_chosen {
  MR_CUDA_HEURISTIC, /* the library's first */
  MR_CUDA_MEASURED,  /* the user's tuning file has it, or it was measured now */
  MR_CUDA_UNKNOWN,   /* the device is described: its library chooses, and its workspace */
  MR_CUDA_SHIPPED    /* the tuning file that comes with the program has it */
} mr_cuda_chosen_t;

typedef struct mr_cuda_algorithm {
  cublasLtMatmulAlgo_t algo;
  size_t workspace; /* bytes */
  int id;           /* the library's number of the algorithm; -1: unknown */
  mr_cuda_chosen_t by;
} mr_cuda_algorithm_t;

/* The library's handle for d, made at the first call and kept.  MR_OK
   or MR_ERR_UNAVAILABLE with its reason.  Any thread (algorithm.c). */
mr_err_t mr__cublaslt_handle(mr_cuda_device_t *d, const mr_cublaslt_t *lt, cublasLtHandle_t *handle,
                             mr_diag_t *diag);
void mr__cublaslt_end(mr_cuda_device_t *d); /* ends it; nothing without one */

/* Chooses the algorithm of m, which describes p: that of the user's tuning file,
   where it has one that the library still takes; with MILLRACE_TUNE=1 the
   fastest of those that the heuristic names, measured now and added to the
   file; else the shipped tuning file's; else the heuristic's first.  `align`: what addresses of
   operands that are read in place and of the result are multiples of, in bytes (mr__call_align);
   below 64 the heuristic is asked for that alignment, and nothing is measured, nor taken from a
   file, whose algorithms may want more.  MR_OK; MR_ERR_NORULE without a sentence if there is no
   algorithm; MR_ERR_UNAVAILABLE, MR_ERR_NOMEM.  Any thread (algorithm.c). */
mr_err_t mr__cuda_algorithm(mr_cuda_device_t *d, const mr_product_t *p, size_t align,
                            const mr_cuda_matmul_t *m, mr_cuda_algorithm_t *out, mr_diag_t *diag);

/* The same of a described device, without a library: a tuning file's, whose id
   is -1 if cuBLASLt (lt, or NULL) is not here to tell it, or MR_CUDA_UNKNOWN.
   Any thread; cannot fail (algorithm.c). */
void mr__cuda_algorithm_described(const mr_cuda_described_t *d, const mr_product_t *p, size_t align,
                                  const mr_cublaslt_t *lt, mr_cuda_algorithm_t *out);

/* Measures found[0,n) on drawn numbers in memory of the device and returns the
   index of the fastest, with its time; -1 if none ran, or without memory
   (tune.c). */
int mr__cuda_tune(mr_cuda_device_t *d, cublasLtHandle_t handle, const mr_product_t *p,
                  const mr_cuda_matmul_t *m, const cublasLtMatmulHeuristicResult_t *found, int n,
                  uint64_t *ns);
extern const char mr__cuda_fill_text[]; /* the kernel that draws them */

/* Gives one product to the stream: a, b, bias (NULL without one) and d lie on
   the device, and so does the workspace of algo->workspace bytes (matmul.c). */
cublasStatus_t mr__cuda_matmul_start(const mr_cuda_matmul_t *m, cublasLtHandle_t handle,
                                     const mr_product_t *p, const cublasLtMatmulAlgo_t *algo,
                                     const void *a, const void *b, const void *bias, void *d,
                                     void *workspace, size_t bytes, cudaStream_t stream);

#endif
