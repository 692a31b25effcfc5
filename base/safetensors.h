/* The safetensors file format (huggingface.co/docs/safetensors): written whole or not at all,
   read with every length checked.

   A file: u64 little-endian header length, a JSON header {"name": {"dtype","shape",
   "data_offsets"}, "__metadata__": {text: text}}, then the tensors' bytes.  Millrace adds the
   metadata key "millrace.xxh3" (16 hex digits): XXH3-64 of the whole file with those digits
   as zeros, so that a changed byte anywhere is noticed; and "millrace.format": a file with any
   key "millrace.*" must carry the digest.  A tensor's data need not be aligned for its dtype. */
#ifndef MR_BASE_SAFETENSORS_H
#define MR_BASE_SAFETENSORS_H

#include "base/decls.h"
#include "base/dtype.h"
#include "base/err.h"
#include "base/xio.h"

MR_BEGIN_DECLS

typedef struct mr_st_tensor {
  const char *name;
  mr_dtype_t dtype;
  int ndim;
  int64_t dim[MR_MAX_NDIM];
  const void *data; /* row-major, little-endian */
} mr_st_tensor_t;

typedef struct mr_st_meta {
  const char *key, *value; /* UTF-8 */
} mr_st_meta_t;

/* Writes and syncs all of it beside path, into *f: mr_newfile_commit gives it its name,
   mr_newfile_drop removes it.  Names, text and data are no longer needed then.  On failure nothing
   of it is left, and *f is as after drop. */
mr_err_t mr_safetensors_begin(mr_newfile_t *f, const char *path, const mr_st_tensor_t *t,
                              int n_tensors, const mr_st_meta_t *meta, int n_meta, mr_diag_t *diag);

/* Writes path by way of a temporary file in the same folder: fsync, rename, fsync of the folder.
   On failure nothing of it is left and an older file at path is untouched. */
mr_err_t mr_safetensors_write(const char *path, const mr_st_tensor_t *t, int n_tensors,
                              const mr_st_meta_t *meta, int n_meta, mr_diag_t *diag);

typedef struct mr_safetensors mr_safetensors_t;

/* Maps and checks a file: lengths, offsets, JSON, dtypes, shapes against byte counts, and the
   hash if the file has one.  MR_ERR_IO or MR_ERR_DATA with the path in the sentence. */
mr_err_t mr_safetensors_open(const char *path, mr_safetensors_t **out, mr_diag_t *diag);
void mr_safetensors_close(mr_safetensors_t *f);      /* NULL is fine */
int mr_safetensors_count(const mr_safetensors_t *f); /* tensors */
/* Tensor i in [0,count), in the order of the file; lives until close, like all that follows. */
const mr_st_tensor_t *mr_safetensors_at(const mr_safetensors_t *f, int i);
const mr_st_tensor_t *mr_safetensors_find(const mr_safetensors_t *f,
                                          const char *name);                 /* or NULL */
const char *mr_safetensors_meta(const mr_safetensors_t *f, const char *key); /* or NULL */

MR_END_DECLS

#endif
