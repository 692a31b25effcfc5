/* Abstract values: the dtype and shape of a tensor, known before any number is. */
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

/* dim: [ndim] sizes >= 0, outermost first.  Where there are too many, the aval is one that no
   function takes (mr_aval_wrong). */
mr_aval_t mr_aval(mr_dtype_t dtype, int ndim, const int64_t *dim);

/* mr_aval_of(MR_F32, 3, 4) is f32[3,4]; mr_aval_scalar(MR_F32) is f32[]. */
#define mr_aval_of(dtype, ...) mr_aval(dtype, MR_DIMS(__VA_ARGS__))
mr_aval_t mr_aval_scalar(mr_dtype_t dtype); /* no dimensions */

int64_t mr_aval_elems(const mr_aval_t *a); /* 1 for a scalar */
size_t mr_aval_bytes(const mr_aval_t *a);
/* What makes it no aval: too many dimensions, a negative size, a size past 2^63 bytes; or NULL. */
const char *mr_aval_wrong(const mr_aval_t *a);
/* Whether dimensions are equal; and the dtype too. */
bool mr_aval_same_shape(const mr_aval_t *a, const mr_aval_t *b);
bool mr_aval_equal(const mr_aval_t *a, const mr_aval_t *b);
/* Product of dim[from,to). */
int64_t mr_aval_span(const mr_aval_t *a, int from, int to);

#define MR_AVAL_TEXT 192
/* Writes "f32[3,4]" into out[MR_AVAL_TEXT] and returns out. */
const char *mr_aval_text(const mr_aval_t *a, char *out);

static inline bool mr_is_float(mr_dtype_t t) {
  return t == MR_F32 || t == MR_BF16 || t == MR_F64 || t == MR_F16;
}

static inline bool mr_is_narrow(mr_dtype_t t) { return t == MR_F32 || t == MR_BF16; }

MR_END_DECLS

#endif
