/* Writes NumPy's .npz files: a zip of uncompressed .npy files, as numpy.savez does.

   Source of the format: PKWARE's APPNOTE.TXT 6.3, sections 4.3 and 4.4; numpy.lib.format. */
#ifndef MR_BASE_NPZ_H
#define MR_BASE_NPZ_H

#include "base/decls.h"
#include "base/dtype.h"
#include "base/err.h"

MR_BEGIN_DECLS

enum { MR_NPZ_MOST = 64, MR_NPZ_NAME = 64 };

typedef struct mr_npz_array {
  char name[MR_NPZ_NAME]; /* unique in the file */
  mr_dtype_t dtype;
  int chars; /* above 0: its elements are texts of this many characters, UTF-32 padded with zeros
                ("<U7"), whatever dtype says */
  int ndim;
  int64_t dim[MR_MAX_NDIM];
  const void *data; /* row-major; the caller's */
} mr_npz_array_t;

/* Writes array[0,n), n <= MR_NPZ_MOST, whole or not at all.  bf16 and f8 become raw bytes, as in
   mr_npy_save.  MR_ERR_CONFIG with the path in the sentence if the file would take 4 GiB or more;
   MR_ERR_IO. */
mr_err_t mr_npz_save(const char *path, const mr_npz_array_t *array, int n, mr_diag_t *diag);

MR_END_DECLS

#endif
