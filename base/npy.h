/* Reads and writes NumPy's .npy files (format 1.0 to 3.0): golden vectors
   and users' arrays.  Implemented in npy.c (reading) and npy_save.c (writing).  Any thread; calls
   block on the file system.

   Source of the format: numpy.lib.format. */
#ifndef MR_BASE_NPY_H
#define MR_BASE_NPY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/decls.h"
#include "base/dtype.h"
#include "base/err.h"

MR_BEGIN_DECLS

typedef struct mr_npy {
  mr_dtype_t dtype;
  int ndim;
  int64_t dim[MR_MAX_NDIM];
  size_t count;                     /* elements */
  size_t size;                      /* bytes of an element in the file: i1, i2 and u2 become i32 */
  bool is_signed, swapped, fortran; /* of narrow ones; big-endian; the first dimension is fastest */
  void *data; /* count elements, row-major, 64-aligned; owned by the struct; NULL after a header */
} mr_npy_t;

/* Parses type and shape from a file's first n bytes into *out (data stays NULL) and the byte offset
   of its first element into *offset.  MR_ERR_DATA with the path in the sentence on anything but an
   array of b1 u1 i1 i2 u2 i4 u4 i8 u8 f2 f4 f8, of either byte order and either order of
   dimensions, with at most MR_MAX_NDIM dimensions, none negative, whose size in bytes fits size_t;
   MR_ERR_NOMEM.  *out is zeroed on failure. */
mr_err_t mr_npy_header(const char *path, const void *file, size_t n, mr_npy_t *out, size_t *offset,
                       mr_diag_t *diag);

/* Returns whether the elements lie in the file as they do in memory, so that parts of the file can
   be used as they are. */
bool mr_npy_as_is(const mr_npy_t *a);

/* Converts all elements behind a header, from[0, count * size), to this machine's byte order, C
   order and dtype, into to[0, count * mr_dtype_size(dtype)).  Neither need be aligned. */
void mr_npy_convert(const mr_npy_t *a, const void *from, void *to);

enum { MR_NPY_HEADER_MAX = 65536 + 12 }; /* bytes of a file that hold its header */

/* Checks that the bytes behind the header are those of the shape, else MR_ERR_DATA. */
mr_err_t mr_npy_check_size(const char *path, const mr_npy_t *a, size_t bytes, mr_diag_t *diag);

/* The same as mr_npy_header for the file at path; its size must be that of its shape, else
   MR_ERR_DATA.  Reads the header alone.  MR_ERR_IO if the file cannot be opened or read, or is not
   a regular file. */
mr_err_t mr_npy_peek(const char *path, mr_npy_t *out, size_t *offset, mr_diag_t *diag);

/* Loads a whole file of at most 16 GiB into *out, which the caller frees with mr_npy_free.
   MR_ERR_IO, MR_ERR_DATA or MR_ERR_NOMEM with the path in the sentence; *out is then zeroed and
   owns nothing.  Arrays as mr_npy_header takes them, converted. */
mr_err_t mr_npy_load(const char *path, mr_npy_t *out, mr_diag_t *diag);
/* The same for a whole file in memory, file[0,n); fails without MR_ERR_IO. */
mr_err_t mr_npy_parse(const char *path, const void *file, size_t n, mr_npy_t *out, mr_diag_t *diag);
void mr_npy_free(mr_npy_t *a); /* zeroed or NULL is fine */

/* Writes the header of a file of such an array, as format 1.0, into out.  Returns its length, a
   multiple of 64 that is at most MR_NPY_HEAD_MAX; cannot fail.  ndim <= MR_MAX_NDIM. */
enum { MR_NPY_HEAD_MAX = 640 };
size_t mr_npy_head(mr_dtype_t dtype, int ndim, const int64_t *dim, char out[MR_NPY_HEAD_MAX]);
/* The same for elements that are texts of `chars` characters in UTF-32. */
size_t mr_npy_head_of_texts(int chars, int ndim, const int64_t *dim, char out[MR_NPY_HEAD_MAX]);

/* Writes an array of ndim <= MR_MAX_NDIM dimensions as format 1.0, whole or not at all.  Returns
   MR_ERR_IO as mr_newfile_open, mr_write_all and mr_newfile_commit do.  bf16 becomes two raw bytes
   (V2), f8 one (V1): NumPy has no such types. */
mr_err_t mr_npy_save(const char *path, mr_dtype_t dtype, int ndim, const int64_t *dim,
                     const void *data, mr_diag_t *diag);

MR_END_DECLS

#endif
