/* The writing half of npy.h: format 1.0, with a header padded so that the data begin at a multiple
   of 64 bytes. */
#include <inttypes.h>
#include <stdio.h>

#include "base/npy.h"
#include "base/xio.h"

enum { PREFIX = 10, ALIGN = 64, HEADER_MAX = 512 };
_Static_assert(PREFIX + HEADER_MAX + ALIGN <= MR_NPY_HEAD_MAX, "a head fits");

/* NumPy has no bfloat16 and no float8: they become raw bytes, which users of ml_dtypes view as
 * such.
 */
static const char *descr_of(mr_dtype_t t) {
  static const char *const descr[MR_DTYPE_COUNT] = {
      [MR_BOOL] = "|b1", [MR_U8] = "|u1",  [MR_I32] = "<i4",       [MR_U32] = "<u4",
      [MR_I64] = "<i8",  [MR_U64] = "<u8", [MR_BF16] = "|V2",      [MR_F16] = "<f2",
      [MR_F32] = "<f4",  [MR_F64] = "<f8", [MR_F8_E4M3FN] = "|V1", [MR_F8_E5M2] = "|V1"};
  return descr[t];
}

static size_t npy_head_of(const char *descr, int ndim, const int64_t *dim,
                          char out[MR_NPY_HEAD_MAX]) {
  char *text = out + PREFIX;
  int n = snprintf(text, HEADER_MAX, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
  for (int i = 0; i < ndim; i++)
    n += snprintf(text + n, HEADER_MAX - (size_t)n, "%" PRId64 "%s", dim[i],
                  ndim == 1      ? ","
                  : i + 1 < ndim ? ", "
                                 : "");
  n += snprintf(text + n, HEADER_MAX - (size_t)n, "), }");
  while ((PREFIX + n + 1) % ALIGN) text[n++] = ' ';
  text[n++] = '\n';
  memcpy(out, "\x93NUMPY\x01\x00", 8);
  out[8] = (char)(n & 255), out[9] = (char)(n >> 8);
  return (size_t)(PREFIX + n);
}

size_t mr_npy_head(mr_dtype_t dtype, int ndim, const int64_t *dim, char out[MR_NPY_HEAD_MAX]) {
  return npy_head_of(descr_of(dtype), ndim, dim, out);
}

size_t mr_npy_head_of_texts(int chars, int ndim, const int64_t *dim, char out[MR_NPY_HEAD_MAX]) {
  char descr[16];
  snprintf(descr, sizeof descr, "<U%d", chars);
  return npy_head_of(descr, ndim, dim, out);
}

mr_err_t mr_npy_save(const char *path, mr_dtype_t dtype, int ndim, const int64_t *dim,
                     const void *data, mr_diag_t *diag) {
  char header[MR_NPY_HEAD_MAX];
  size_t bytes = mr_dtype_size(dtype), n = mr_npy_head(dtype, ndim, dim, header);
  mr_newfile_t f;
  for (int i = 0; i < ndim; i++) bytes *= (size_t)dim[i];
  MR_TRY(mr_newfile_open(&f, path, diag));
  mr_err_t e = mr_write_all(f.fd, header, n, path, diag);
  if (e >= 0) e = mr_write_all(f.fd, data, bytes, path, diag);
  if (e >= 0) return mr_newfile_commit(&f, diag);
  mr_newfile_drop(&f);
  return e;
}
