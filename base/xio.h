/* Files whole or not at all, and the few calls around that.

   Every failure is MR_ERR_IO with the path and the system's reason in the sentence. */
#ifndef MR_BASE_XIO_H
#define MR_BASE_XIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/decls.h"
#include "base/err.h"

MR_BEGIN_DECLS

enum { MR_PATH_MAX = 4096 };

/* Writes all n bytes to fd, over short writes and EINTR.  path: for the sentence. */
mr_err_t mr_write_all(int fd, const void *data, size_t n, const char *path, mr_diag_t *diag);

/* Reads a regular file of at most max bytes into *data (heap, the caller frees it; one NUL byte
   follows the contents).  MR_ERR_DATA if the file is larger; MR_ERR_IO, at once, for a pipe or a
   device; MR_ERR_NOMEM.  *data is NULL on failure. */
mr_err_t mr_read_file(const char *path, size_t max, void **data, size_t *n, mr_diag_t *diag);

/* Opens a regular file for reading; NULL, with errno, if it cannot be opened or is none: a pipe
   would make the caller wait for its writer. */
FILE *mr_open_regular(const char *path);

/* Makes a folder and its parents, each of them synced into the folder above; one that exists is
   fine. */
mr_err_t mr_make_folder(const char *path, mr_diag_t *diag);

/* Fails unless path is a folder in which this process can make a file: it makes and removes one. */
mr_err_t mr_folder_writable(const char *path, mr_diag_t *diag);

/* Syncs the folder that holds path to the disk, so that a file made or renamed in it lasts.  MR_OK
   too where the folder cannot be synced: its file system has no such call, or this process may not
   read it. */
mr_err_t mr_sync_parent(const char *path, mr_diag_t *diag);

/* A file that appears under its name only when it is complete and on the disk.  It is written under
   a name of its own beside it, which no other process has or can guess. */
typedef struct mr_newfile {
  int fd;
  bool synced;
  char path[MR_PATH_MAX], tmp[MR_PATH_MAX + 64];
} mr_newfile_t;

/* The caller writes to f->fd (mr_write_all), then calls commit or drop. */
mr_err_t mr_newfile_open(mr_newfile_t *f, const char *path, mr_diag_t *diag);
/* fsync: for work between the last byte and the rename.  On failure it has dropped the file. */
mr_err_t mr_newfile_sync(mr_newfile_t *f, mr_diag_t *diag);
/* fsync unless it was synced, rename, fsync of the folder; on failure it has dropped the file. */
mr_err_t mr_newfile_commit(mr_newfile_t *f, mr_diag_t *diag);
void mr_newfile_drop(mr_newfile_t *f); /* closes and removes; harmless after commit */

/* Fails where mr_newfile could not make a file of this name, by beginning one and dropping it: for
   those who find out what goes there by long work. */
mr_err_t mr_file_writable(const char *path, mr_diag_t *diag);

/* mr_newfile for contents that lie in memory. */
mr_err_t mr_write_file(const char *path, const void *data, size_t n, mr_diag_t *diag);

/* The same for what print writes of `what`, all of which is held in memory first: MR_ERR_NOMEM. */
typedef void mr_print_fn(const void *what, FILE *to);
mr_err_t mr_write_printed(const char *path, mr_print_fn *print, const void *what, mr_diag_t *diag);

MR_END_DECLS

#endif
