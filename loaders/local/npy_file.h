/* An .npy file here or at a URL: its header, and parts of it that are read at once. */
#ifndef MR_LOADERS_LOCAL_NPY_FILE_H
#define MR_LOADERS_LOCAL_NPY_FILE_H

#include "base/npy.h"
#include "loaders/local/reader.h"

typedef struct mr_npy_file {
  const char
      *path; /* as given, the caller's; after find: to open a local file, and for sentences */
  mr_remote_t *remote;
  const mr_object_t *object; /* NULL: a local file */
  char *own;                 /* heap: a path made of a file:// URL; NULL: none */
} mr_npy_file_t;

/* Finds out what path is.  The first URL opens *remote, which several files share and the caller
   ends, after them.  The caller ends f with mr_npy_file_forget, also after a failure.  Fails as
   mr_remote_open and mr_remote_object. */
mr_err_t mr_npy_file_find(mr_npy_file_t *f, mr_remote_t **remote, const mr_remote_conf_t *conf,
                          mr_diag_t *diag);
void mr_npy_file_forget(mr_npy_file_t *f);

/* As mr_npy_peek and mr_npy_load; fail as mr_remote_read too. */
mr_err_t mr_npy_file_peek(const mr_npy_file_t *f, mr_npy_t *out, size_t *offset, mr_diag_t *diag);
mr_err_t mr_npy_file_load(const mr_npy_file_t *f, mr_npy_t *out, mr_diag_t *diag);

/* Opens a reader of this file alone.  Fails as mr_reader_open. */
mr_err_t mr_npy_file_reader(const mr_npy_file_t *f, mr_read_way_t backend, bool once,
                            mr_reader_t **out, mr_diag_t *diag);

/* Reads bytes [at,at+n) into new memory at *out, 64-aligned, the caller's; NULL after a failure.
   Fails as mr_reader_read. */
mr_err_t mr_npy_file_part(const mr_npy_file_t *f, mr_read_way_t backend, size_t at, size_t n,
                          void **out, mr_diag_t *diag);

#endif
