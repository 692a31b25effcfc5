/* A product of matrices as a library of BLAS computes it, derived from an equation: pure data,
   without a call of the library, so that it is tested on any machine.  cuBLASLt multiplies operands
   of 16 bits, CLBlast f32 and f64 alone.

   These libraries' matrices lie column by column.  A row-major result y (rows, columns) is there
   the matrix d (columns, rows): with the operands exchanged, d = b' a' needs no transposition.  So
   a of the plan is the equation's operand 1, and b its operand 0.

   An operand is read in place where one stride fits each group of its dimensions.  Otherwise, and
   where it is multiplied as another dtype, or f32 as bf16, it is first copied to the call's
   scratch, with the contracted dimension innermost.

   Implemented in product.c and product_copy.c (the kernels around a product). */
#ifndef MR_MODEL_BACKENDS_KERNELS_PRODUCT_H
#define MR_MODEL_BACKENDS_KERNELS_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/decls.h"
#include "base/err.h"
#include "model/backends/kernels/kernel.h"
#include "model/exec/call.h"
#include "model/ir/fn.h"

MR_BEGIN_DECLS

/* How terms are multiplied and added. */
typedef enum mr_product_sums {
  MR_PRODUCT_F32,       /* operands of 16 bits, sums in f32: CUBLAS_COMPUTE_32F */
  MR_PRODUCT_F32_PLAIN, /* f32 operands as they are: CUBLAS_COMPUTE_32F_PEDANTIC */
  MR_PRODUCT_F64        /* CUBLAS_COMPUTE_64F */
} mr_product_sums_t;

/* What a copy holds of a value x of f32.  FINITE: x rounded to bf16, or 0 if that is not finite.
   LOWER: the rest after rounding, or 0 in the same case.  As the CPU does it: the product of a rest
   of 0 and an infinity would be NaN. */
typedef enum mr_product_part {
  MR_PRODUCT_PART_ALL,
  MR_PRODUCT_PART_FINITE,
  MR_PRODUCT_PART_LOWER
} mr_product_part_t;

typedef struct mr_product_operand {
  int in;           /* its index in e->in */
  mr_dtype_t dtype; /* as multiplied */
  /* The matrix in memory, columns of `ld` elements; transposed: op(a) is its transpose. */
  int64_t rows, cols, ld, batch_stride;
  bool transposed;
  /* ---- the copy; n_parts 0: the operand is read in place ---- */
  int n_parts; /* 1, or 3 one after the other along the contracted dimension */
  mr_product_part_t part[3];
  bool rounds; /* f32 is multiplied as bf16: the parts are rounded, also where dtype is f32 */
  mr_dtype_t from;
  int ndim; /* groups batch, free, contracted, in this order; n_k of them are contracted */
  int n_k;
  int64_t dim[MR_MAX_NDIM], stride[MR_MAX_NDIM]; /* strides of the operand, in elements */
  int64_t copied;                                /* elements of the copy */
  size_t at; /* where it begins in the scratch, in bytes: a multiple of 256 */
} mr_product_operand_t;

typedef struct mr_product {
  int64_t m, n, k, batch; /* d (m,n) = op(a) (m,k) op(b) (k,n) (+ bias (m) on each column) */
  mr_product_operand_t a, b;
  mr_dtype_t d;          /* dtype of the result */
  int64_t d_ld, d_batch; /* columns and matrices of d, in elements */
  int bias;              /* the index in e->in of the bias, which has d's dtype; -1: no bias */
  mr_product_sums_t sums;
  size_t copies; /* bytes of scratch that copies take, a multiple of 256 */
} mr_product_t;

/* Sets *p for e, a dot_general or linear whose avals are settled, as cuBLASLt computes it.  false
   if it does not, and *p is then undefined: dtypes that it does not combine, nothing to multiply,
   sizes beyond 32 bits.  Pure; any thread. */
bool mr__product(const mr_eqn_t *e, mr_product_t *p);

/* The same for a library that multiplies f32 and f64 alone and adds no bias: operands of 16 bits
   are copied as f32, and the matrix d that the library writes has the dtype of the operands, which
   is not p->d where that has 16 bits.  false if such a library does not compute it. */
bool mr__product_wide(const mr_eqn_t *e, mr_product_t *p);

enum { MR_PRODUCT_TEXT = 200 };

/* Writes what an algorithm depends on to the caller's text, on one line: "m=1152 n=8320 k=384
   batch=1 a=bf16:N b=bf16:N d=bf16 bias f32", with each matrix's ld and batch stride where it is
   not dense.  Returns text.  Equal texts take the same algorithms. */
const char *mr__product_text(const mr_product_t *p, char text[MR_PRODUCT_TEXT]);

/* Writes the kernels that copy operands of e's plan p into *k, which the caller ends: first a's,
   then b's; both, one or none.  Their scratch begins with the copies.  MR_OK or MR_ERR_NOMEM. Pure.
 */
mr_err_t mr__product_copies(const mr_eqn_t *e, const mr_product_t *p, mr_kernels_t *k,
                            mr_diag_t *diag);

/* Whether the matrix d of a wide plan is wider than the result.  Pure. */
bool mr__product_is_narrow(const mr_product_t *p);

/* Adds the kernel that then rounds d to the result.  d lies in the scratch behind the copies, at
   p->copies, and makes it larger.  MR_OK or MR_ERR_NOMEM.  Pure. */
mr_err_t mr__product_narrow(const mr_eqn_t *e, const mr_product_t *p, mr_kernels_t *k,
                            mr_diag_t *diag);

/* Notes the bytes that these copies read and write.  Pure. */
void mr__product_notes(const mr_eqn_t *e, const mr_product_t *p, mr_call_note_t *note);

MR_END_DECLS

#endif
