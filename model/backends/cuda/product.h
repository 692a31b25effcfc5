/* A product of matrices as cuBLASLt computes it, derived from an equation: pure data, without a
   call of CUDA, so that it is tested on any machine.

   cuBLASLt's matrices lie column by column.  A row-major result y (rows, columns) is there the
   matrix d (columns, rows): with the operands exchanged, d = b' a' needs no transposition.  So a of
   the plan is the equation's operand 1, and b its operand 0.

   An operand is read in place where one stride fits each group of its dimensions.  Otherwise, and
   where f32 is multiplied as bf16, it is first copied to the call's scratch, with the contracted
   dimension innermost. */
#ifndef MR_MODEL_BACKENDS_CUDA_PRODUCT_H
#define MR_MODEL_BACKENDS_CUDA_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/decls.h"
#include "base/err.h"
#include "model/ir/fn.h"

MR_BEGIN_DECLS

/* How terms are multiplied and added. */
typedef enum mr_cuda_compute {
  MR_CUDA_COMPUTE_F32,       /* CUBLAS_COMPUTE_32F: operands of 16 bits, sums in f32 */
  MR_CUDA_COMPUTE_F32_PLAIN, /* CUBLAS_COMPUTE_32F_PEDANTIC: f32 operands as they are */
  MR_CUDA_COMPUTE_F64        /* CUBLAS_COMPUTE_64F */
} mr_cuda_compute_t;

/* What a copy holds of a value x of f32.  FINITE: x rounded to bf16, or 0 if that is not finite.
   LOWER: the rest after rounding, or 0 in the same case.  As the CPU does it: the product of a rest
   of 0 and an infinity would be NaN. */
typedef enum mr_cuda_part {
  MR_CUDA_PART_ALL,
  MR_CUDA_PART_FINITE,
  MR_CUDA_PART_LOWER
} mr_cuda_part_t;

typedef struct mr_cuda_operand {
  int in;           /* its index in e->in */
  mr_dtype_t dtype; /* as multiplied */
  /* The matrix in memory, columns of `ld` elements; transposed: op(a) is its transpose. */
  int64_t rows, cols, ld, batch_stride;
  bool transposed;
  /* ---- the copy; n_parts 0: the operand is read in place ---- */
  int n_parts; /* 1, or 3 one after the other along the contracted dimension */
  mr_cuda_part_t part[3];
  mr_dtype_t from;
  int ndim; /* groups batch, free, contracted, in this order; n_k of them are contracted */
  int n_k;
  int64_t dim[MR_MAX_NDIM], stride[MR_MAX_NDIM]; /* strides of the operand, in elements */
  int64_t copied;                                /* elements of the copy */
  size_t at; /* where it begins in the scratch, in bytes: a multiple of 256 */
} mr_cuda_operand_t;

typedef struct mr_cuda_product {
  int64_t m, n, k, batch; /* d (m,n) = op(a) (m,k) op(b) (k,n) (+ bias (m) on each column) */
  mr_cuda_operand_t a, b;
  mr_dtype_t d;          /* dtype of the result */
  int64_t d_ld, d_batch; /* columns and matrices of d, in elements */
  int bias;              /* the index in e->in of the bias, which has d's dtype; -1: no bias */
  mr_cuda_compute_t compute;
  size_t copies; /* bytes of scratch that copies take, a multiple of 256 */
} mr_cuda_product_t;

/* Sets *p for e, a dot_general or linear whose avals are settled.  false if cuBLASLt does not take
   it, and *p is then undefined: dtypes that it does not combine, nothing to multiply, sizes beyond
   32 bits.  Pure; any thread. */
bool mr__cuda_product(const mr_eqn_t *e, mr_cuda_product_t *p);

enum { MR_CUDA_PRODUCT_TEXT = 200 };

/* Writes what an algorithm depends on to text, on one line: "m=1152 n=8320 k=384 batch=1 a=bf16:N
   b=bf16:N d=bf16 bias f32", with each matrix's ld and batch stride where it is not dense.  Returns
   text.  Equal texts take the same algorithms. */
const char *mr__cuda_product_text(const mr_cuda_product_t *p, char text[MR_CUDA_PRODUCT_TEXT]);

MR_END_DECLS

#endif
