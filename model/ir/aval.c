/* Abstract values: sizes, validity and text.  Sizes come from plug-ins, files and jaxprs as well,
   so products of dimensions are computed without undefined overflow, and mr_aval_wrong is asked
   before a value is made. */
#include "model/ir/aval.h"

#include <stdio.h>

mr_aval_t mr_aval(mr_dtype_t dtype, int ndim, const int64_t *dim) {
  mr_aval_t a = {.dtype = dtype, .ndim = ndim > MR_MAX_NDIM ? -1 : ndim < 0 ? -2 : ndim};
  for (int i = 0; i < a.ndim; i++) a.dim[i] = dim[i];
  return a;
}

mr_aval_t mr_aval_scalar(mr_dtype_t dtype) { return (mr_aval_t){.dtype = dtype}; }

int64_t mr_aval_span(const mr_aval_t *a, int from, int to) {
  uint64_t n = 1; /* unsigned: an aval that mr_aval_wrong refuses may wrap here */
  for (int i = from; i < to; i++) n *= (uint64_t)a->dim[i];
  return (int64_t)n;
}

int64_t mr_aval_elems(const mr_aval_t *a) { return mr_aval_span(a, 0, a->ndim); }

size_t mr_aval_bytes(const mr_aval_t *a) {
  return (size_t)mr_aval_elems(a) * mr_dtype_size(a->dtype);
}

const char *mr_aval_wrong(const mr_aval_t *a) {
  if ((unsigned)a->dtype >= MR_DTYPE_COUNT) return "there is no such dtype";
  int64_t bytes = (int64_t)mr_dtype_size(a->dtype);
  bool over = false;
  if (a->ndim < -1) return "a value has a negative number of dimensions";
  if (a->ndim < 0 || a->ndim > MR_MAX_NDIM) return "a value has more than 8 dimensions";
  for (int i = 0; i < a->ndim; i++) {
    if (a->dim[i] < 0) return "a size is negative";
    over |= a->dim[i] && __builtin_mul_overflow(bytes, a->dim[i], &bytes);
  }
  return over ? "a value has more bytes than can be counted" : NULL;
}

_Static_assert(MR_MAX_NDIM == 8, "the sentence above says so");

bool mr_aval_same_shape(const mr_aval_t *a, const mr_aval_t *b) {
  if (a->ndim != b->ndim) return false;
  for (int i = 0; i < a->ndim; i++)
    if (a->dim[i] != b->dim[i]) return false;
  return true;
}

bool mr_aval_equal(const mr_aval_t *a, const mr_aval_t *b) {
  return a->dtype == b->dtype && mr_aval_same_shape(a, b);
}

const char *mr_aval_text(const mr_aval_t *a, char *out) {
  int at = snprintf(out, MR_AVAL_TEXT, "%s[", mr_dtype_name(a->dtype));
  for (int i = 0; i < a->ndim; i++)
    at +=
        snprintf(out + at, (size_t)(MR_AVAL_TEXT - at), i ? ",%lld" : "%lld", (long long)a->dim[i]);
  snprintf(out + at, (size_t)(MR_AVAL_TEXT - at), "]");
  return out;
}
