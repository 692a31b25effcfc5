/* Abstract values: the dtype and shape of a tensor, known before any number is.

   An aval is a plain value.  Nothing here allocates or blocks, and any thread may call it. */
#ifndef MR_MODEL_IR_AVAL_H
#define MR_MODEL_IR_AVAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/decls.h"
#include "base/dtype.h"

MR_BEGIN_DECLS

typedef struct mr_aval {
  mr_dtype_t dtype;
  int ndim; /* [0,MR_MAX_NDIM]; 0 is a scalar */
  int64_t dim[MR_MAX_NDIM];
} mr_aval_t;

/* Returns the aval of dim[ndim], sizes >= 0, outermost first.  If ndim is out of [0,MR_MAX_NDIM] it
   returns an aval with a negative ndim, for which mr_aval_wrong has a sentence. */
mr_aval_t mr_aval(mr_dtype_t dtype, int ndim, const int64_t *dim);

/* mr_aval_of(MR_F32, 3, 4) returns f32[3,4]; mr_aval_scalar(MR_F32) returns f32[]. */
#define mr_aval_of(dtype, ...) mr_aval(dtype, MR_DIMS(__VA_ARGS__))
mr_aval_t mr_aval_scalar(mr_dtype_t dtype); /* returns dtype[] */

/* Number of elements (1 if a is a scalar) and bytes.  They wrap if mr_aval_wrong(a). */
int64_t mr_aval_elems(const mr_aval_t *a);
size_t mr_aval_bytes(const mr_aval_t *a);
/* Returns a static sentence if a is invalid: an unknown dtype, a negative number of dimensions or
   more than MR_MAX_NDIM, a negative size, or 2^63 bytes and more.  NULL if a is valid. */
const char *mr_aval_wrong(const mr_aval_t *a);
/* Whether the dimensions are equal; whether the dtype is equal too. */
bool mr_aval_same_shape(const mr_aval_t *a, const mr_aval_t *b);
bool mr_aval_equal(const mr_aval_t *a, const mr_aval_t *b);
/* Returns the product of dim[from,to), 1 if the range is empty; 0 <= from, to <= a->ndim. */
int64_t mr_aval_span(const mr_aval_t *a, int from, int to);

#define MR_AVAL_TEXT 192
/* Writes "f32[3,4]" into out[MR_AVAL_TEXT], which every aval fits, and returns out, which stays the
   caller's. */
const char *mr_aval_text(const mr_aval_t *a, char *out);

/* Whether t is a floating-point dtype. */
static inline bool mr_is_float(mr_dtype_t t) {
  return t == MR_F32 || t == MR_BF16 || t == MR_F64 || t == MR_F16 || t == MR_F8_E4M3FN ||
         t == MR_F8_E5M2;
}

/* Whether t is a float to store and convert, which no arithmetic takes. */
static inline bool mr_is_storage(mr_dtype_t t) { return t == MR_F8_E4M3FN || t == MR_F8_E5M2; }

/* Whether t is f32, or bf16 or f16, which kernels compute in f32 and round to t. */
static inline bool mr_is_narrow(mr_dtype_t t) { return t == MR_F32 || t == MR_BF16 || t == MR_F16; }

MR_END_DECLS

#endif
