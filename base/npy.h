/* Reads and writes NumPy's .npy files (format 1.0 to 3.0, C order, little-endian): golden vectors
   and arrays that people bring.

   Source of the format: numpy.lib.format. */
#ifndef MR_BASE_NPY_H
#define MR_BASE_NPY_H

#include <stddef.h>

#include "base/decls.h"
#include "base/dtype.h"
#include "base/err.h"

MR_BEGIN_DECLS

typedef struct mr_npy {
  mr_dtype_t dtype;
  int ndim;
  int64_t dim[MR_MAX_NDIM];
  size_t count; /* elements */
  void *data;   /* count elements, row-major, 64-aligned */
} mr_npy_t;

/* Reads type and shape from a file's first n bytes into *out (data stays NULL) and the place of its
   first element into *offset.  MR_ERR_DATA with the path in the sentence on anything else than a
   plain C-ordered array: its dimensions are not negative, and its size in bytes fits size_t. */
mr_err_t mr_npy_header(const char *path, const void *file, size_t n, mr_npy_t *out, size_t *offset,
                       mr_diag_t *diag);

/* The same, of the file at path, whose size must be that of its shape.  Nothing else is read. */
mr_err_t mr_npy_peek(const char *path, mr_npy_t *out, size_t *offset, mr_diag_t *diag);

/* Loads a whole file.  MR_ERR_IO or MR_ERR_DATA with the path in the sentence; then nothing is
   held.  Types: b1 u1 i4 u4 i8 u8 f2 f4 f8. */
mr_err_t mr_npy_load(const char *path, mr_npy_t *out, mr_diag_t *diag);
void mr_npy_free(mr_npy_t *a); /* zeroed or NULL is fine */

/* The bytes before the data of a file of this array, as format 1.0, into out; returns how many. */
enum { MR_NPY_HEAD_MAX = 640 };
size_t mr_npy_head(mr_dtype_t dtype, int ndim, const int64_t *dim, char out[MR_NPY_HEAD_MAX]);

/* Writes ndim <= MR_MAX_NDIM dimensions of data as format 1.0, whole or not at all.  bf16 becomes
   two raw bytes (V2): NumPy has no such type. */
mr_err_t mr_npy_save(const char *path, mr_dtype_t dtype, int ndim, const int64_t *dim,
                     const void *data, mr_diag_t *diag);

MR_END_DECLS

#endif
