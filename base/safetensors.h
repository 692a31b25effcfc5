/* The safetensors file format (huggingface.co/docs/safetensors): written whole or not at all, read
   with every length checked.  Any thread, one at a time per file; calls block on the file system.

   A file: u64 little-endian header length, a JSON header {"name": {"dtype","shape",
   "data_offsets"}, "__metadata__": {text: text}}, then the tensors' bytes.  Millrace adds the
   metadata "millrace.xxh3" (16 hex digits): XXH3-64 of the whole file with those digits as
   zeros, so that a changed byte anywhere is noticed; "millrace.hashes": the same 16 digits of each
   tensor's bytes, one after the other in the order of the data, so that a damaged tensor is named;
   and "millrace.format".  A file with any metadata "millrace.*" must carry the digest; files of
   earlier versions have no hashes of tensors.

   A checkpoint of several ranks is one such file a rank.  That of rank 0 has the index
   "millrace.slices": the names of the others, a line each, in the order of their ranks, which lie
   in the same folder; each has "millrace.slice": "K of N", and its digest in its name
   (mr_safetensors_slice_name).  To open the first is to open all.  A tensor's data need not be
   aligned for its dtype.
 */
#ifndef MR_BASE_SAFETENSORS_H
#define MR_BASE_SAFETENSORS_H

#include <stdbool.h>

#include "base/decls.h"
#include "base/dtype.h"
#include "base/err.h"
#include "base/xio.h"

MR_BEGIN_DECLS

#define MR_SAFETENSORS_HASHES "millrace.hashes"
#define MR_SAFETENSORS_SLICES "millrace.slices"
#define MR_SAFETENSORS_SLICE "millrace.slice"
enum { MR_SAFETENSORS_HEX = 16, MR_SAFETENSORS_SLICE_NAME = 128 };

typedef struct mr_st_tensor {
  const char *name;
  mr_dtype_t dtype;
  int ndim;
  int64_t dim[MR_MAX_NDIM];
  const void *data; /* row-major, little-endian */
} mr_st_tensor_t;

typedef struct mr_st_meta {
  const char *name, *value; /* UTF-8 */
} mr_st_meta_t;

/* Writes and syncs the file under a temporary name beside path, as *f; then mr_newfile_commit gives
   it its name, or mr_newfile_drop removes it.  The caller's names, text and data may be freed as
   soon as it returns.  On failure no file is left, and the caller calls neither.  MR_ERR_NOMEM if
   the header cannot be built: no memory, or a tensor of more than 2^52 bytes; *f is untouched then.
   MR_ERR_IO. */
mr_err_t mr_safetensors_begin(mr_newfile_t *f, const char *path, const mr_st_tensor_t *t,
                              int n_tensors, const mr_st_meta_t *meta, int n_meta, mr_diag_t *diag);

/* Writes path through a temporary file in the same folder: fsync, rename, fsync of the folder.
   Fails as mr_safetensors_begin and mr_newfile_commit do. */
mr_err_t mr_safetensors_write(const char *path, const mr_st_tensor_t *t, int n_tensors,
                              const mr_st_meta_t *meta, int n_meta, mr_diag_t *diag);

/* The same bytes to a descriptor, from where it stands; path names it in sentences.  once: the
   tensors are of open files and not read any more, and the memory of each is given back when it is
   written. */
mr_err_t mr_safetensors_write_fd(int fd, const char *path, const mr_st_tensor_t *t, int n_tensors,
                                 const mr_st_meta_t *meta, int n_meta, bool once, mr_diag_t *diag);

/* The digest that the file will have, into hex.  MR_OK or MR_ERR_NOMEM. */
mr_err_t mr_safetensors_digest(const char *path, const mr_st_tensor_t *t, int n_tensors,
                               const mr_st_meta_t *meta, int n_meta,
                               char hex[MR_SAFETENSORS_HEX + 1], mr_diag_t *diag);

/* Writes the name of slice k of n with this digest into name[MR_SAFETENSORS_SLICE_NAME].  stem:
   what stands before ".safetensors" in the name of the first file, of at most 60 bytes, without a
   dot. Cannot fail. */
void mr_safetensors_slice_name(const char *stem, int k, int n, const char *hex,
                               char name[MR_SAFETENSORS_SLICE_NAME]);
/* Whether a file of this name is a slice of the one with this stem. */
bool mr_safetensors_is_slice(const char *name, const char *stem);

typedef struct mr_safetensors mr_safetensors_t;

/* Reads a file, and the slices that it names, into memory and checks lengths, offsets, JSON,
   dtypes, shapes against byte counts, and the digest if the file has metadata "millrace.*"; the
   sentence names the tensors whose own hash differs.  The caller ends *out with
   mr_safetensors_close. MR_ERR_IO, MR_ERR_DATA or MR_ERR_NOMEM with the path in the sentence; *out
   is NULL then.  Slices that are missing, of another step or run, or there twice are refused; if
   one is missing and path leads to a newer file meanwhile, that is read.  A file that is open in
   this process, and has not changed since by its time and size, is not read again: who opens it
   first and holds it spares the others the reading.  Any thread. */
mr_err_t mr_safetensors_open(const char *path, mr_safetensors_t **out, mr_diag_t *diag);
void mr_safetensors_close(mr_safetensors_t *f);       /* NULL is fine */
size_t mr_safetensors_bytes(const mr_st_tensor_t *t); /* of an open file's tensor; cannot fail */
int mr_safetensors_count(const mr_safetensors_t *f);  /* the number of tensors; cannot fail */

int mr_safetensors_files(const mr_safetensors_t *f); /* 1, and its slices */
/* Whether a file names slices, by its header, which alone is read.  Fails as mr_safetensors_open.
 */
mr_err_t mr_safetensors_sliced(const char *path, bool *sliced, mr_diag_t *diag);

/* Writes metadata i of the first file, in its order, to *out, which lives as long as f; false
   behind the last. */
bool mr_safetensors_meta_at(const mr_safetensors_t *f, int i, mr_st_meta_t *out);

/* Tensor i in the order of the data in the file, those of slices behind it; the tensor of this
   name; the metadata text of this name.  Each returns a pointer into the open file that lives until
   mr_safetensors_close, or NULL if i is outside [0,count) or the file has no such name.  A tensor's
   data is not to be written. */
const mr_st_tensor_t *mr_safetensors_at(const mr_safetensors_t *f, int i);
const mr_st_tensor_t *mr_safetensors_find(const mr_safetensors_t *f, const char *name);
const char *mr_safetensors_meta(const mr_safetensors_t *f, const char *name);

MR_END_DECLS

#endif
