/* Files written whole or not at all, and the few calls around that.

   Every function here that returns mr_err_t returns MR_OK, or MR_ERR_IO with the path and the
   system's reason in the sentence, unless it says otherwise.  Any thread; calls block on the file
   system.  When no descriptor is free, opening takes one of the reserve (mr_fd_reserve). */
#ifndef MR_BASE_XIO_H
#define MR_BASE_XIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/decls.h"
#include "base/err.h"
#include "base/trusted.h"

MR_BEGIN_DECLS

enum { MR_PATH_MAX = 4096 };

/* Writes all n bytes to fd, retrying after short writes and EINTR.  On failure some bytes may have
   been written.  path: for the sentence. */
mr_err_t mr_write_all(int fd, const void *data, size_t n, const char *path, mr_diag_t *diag);

/* Reads a regular file of at most max bytes into *data (heap, the caller frees it; one NUL byte
   follows the contents).  MR_ERR_DATA if the file is larger; MR_ERR_IO, at once, for a pipe or a
   device; MR_ERR_NOMEM.  *data is NULL on failure. */
mr_err_t mr_read_file(const char *path, size_t max, void **data, size_t *n, mr_diag_t *diag);

/* The same for a file that this process has not written itself: MR_ERR_UNAVAILABLE if it is not to
   be believed (mr_trusted with `kind` and `more`), or is a link. */
mr_err_t mr_read_trusted(const char *path, size_t max, mr_kept_t kind, const mr_trust_t *more,
                         void **data, size_t *n, mr_diag_t *diag);

/* Open a regular file for reading, as a descriptor or a stream; the caller closes it.  -1 or NULL,
   with errno, if it cannot be opened or is not a regular file: a pipe would make the caller wait
   for its writer.  mr_open_reason: the text of that errno, never NULL; valid as long as
   strerror's. */
int mr_open_regular_fd(const char *path);
FILE *mr_open_regular(const char *path);
const char *mr_open_reason(int error);

/* Reads the next line, with its newline if it has one, into *line, which is grown (heap, the caller
   frees it; *line NULL and *room 0 at first) and ends with a NUL.  Returns its bytes; 0 for a line
   of more than `most` bytes, which is skipped to its end and leaves *line ""; -1 at the end of the
   file, after an error (ferror) or without memory (errno ENOMEM, not feof). */
ssize_t mr_read_line(FILE *f, size_t most, char **line, size_t *room);
/* Skips the rest of the line with its newline, or of a file without one. */
void mr_skip_line(FILE *f);
enum { MR_LINE_MOST = 16 << 20 /* bytes of a line of a run's files */ };

/* Whether a call failed with this errno for want of descriptors or memory, so that it says nothing
   about the file.  mr_open_short fails for such an open: MR_ERR_NOMEM, always, with the path, the
   reason and what to do. */
bool mr_is_shortage(int error);
mr_err_t mr_open_short(const char *path, int error, mr_diag_t *diag);

/* Makes a folder and its missing parents and syncs each into the folder above.  An existing folder
   is fine; MR_ERR_IO if path is something else or a folder cannot be made. */
mr_err_t mr_make_folder(const char *path, mr_diag_t *diag);
/* The same for a folder whose files this user's next process is to believe (base/trusted.h):
   neither the group nor others may write there, whatever the umask.  An existing folder stays as it
   is. */
mr_err_t mr_make_own_folder(const char *path, mr_diag_t *diag);

/* Checks that this process can make a file in the folder path, by making and removing one.
   MR_ERR_IO if it cannot. */
mr_err_t mr_folder_writable(const char *path, mr_diag_t *diag);

/* Syncs the folder that holds path to the disk, so that a file made or renamed in it lasts.  MR_OK
   too where a folder cannot be synced: the file system does not support it, or this process may not
   read the folder. */
mr_err_t mr_sync_parent(const char *path, mr_diag_t *diag);

/* A file that appears under its name only when it is complete and on the disk.  Until then it has a
   temporary name beside it, which no other process uses or can guess. */
typedef struct mr_newfile {
  int fd;
  bool synced;
  char path[MR_PATH_MAX], tmp[MR_PATH_MAX + 64];
} mr_newfile_t;

/* MR_ERR_IO if path is a link, a pipe, a device or a folder, which a new file would replace: for
   those who want to know before they work for the file.  mr_newfile_open asks too. */
mr_err_t mr_newfile_check(const char *path, mr_diag_t *diag);
/* Opens the temporary file.  The caller writes to f->fd (mr_write_all), then calls commit or drop.
   MR_ERR_IO: f->fd is -1, and nothing needs to be dropped. */
mr_err_t mr_newfile_open(mr_newfile_t *f, const char *path, mr_diag_t *diag);
/* The same for a file that is kept for this user's next process (base/trusted.h): a link, which is
   never believed, is replaced. */
mr_err_t mr_newfile_open_own(mr_newfile_t *f, const char *path, mr_diag_t *diag);
/* Calls fsync, so that the caller can do other work between the last byte and the rename.  On
   failure it has dropped the file. */
mr_err_t mr_newfile_sync(mr_newfile_t *f, mr_diag_t *diag);
/* Calls fsync unless mr_newfile_sync did, renames the file to path, and syncs the folder.  If fsync
   or the rename fails, it has dropped the file and an older file at path is untouched.  If only the
   folder's sync fails, MR_ERR_IO is returned and the new file is at path. */
mr_err_t mr_newfile_commit(mr_newfile_t *f, mr_diag_t *diag);
/* The same without a sync of file or folder, for what is checked when it is read, and replaced if
   it is damaged: after a power failure the file at path may be the older one, empty or cut short.
   If the close or the rename fails, it has dropped the file and an older file at path is untouched.
 */
mr_err_t mr_newfile_commit_unsynced(mr_newfile_t *f, mr_diag_t *diag);
void mr_newfile_drop(mr_newfile_t *f); /* closes and removes; harmless after commit or a failure */

/* Checks that mr_newfile could make a file of this name, by making and dropping one.  Call it
   before long work whose result goes there.  MR_ERR_IO also for an empty name or a folder. */
mr_err_t mr_file_writable(const char *path, mr_diag_t *diag);

/* Writes data[0,n) to path whole or not at all, through mr_newfile; fails as its calls do. */
mr_err_t mr_write_file(const char *path, const void *data, size_t n, mr_diag_t *diag);

/* The same for a file that this user's next process is to believe (base/trusted.h): others may not
   write it, and the group may only if more->group says so (more: NULL is fine), whatever the
   umask. */
mr_err_t mr_write_own(const char *path, const void *data, size_t n, const mr_trust_t *more,
                      mr_diag_t *diag);

/* The same for the text that print writes of `what`.  The text is held in memory first;
   MR_ERR_NOMEM if it does not fit, and nothing is written. */
typedef void mr_print_fn(const void *what, FILE *to);
mr_err_t mr_write_printed(const char *path, mr_print_fn *print, const void *what, mr_diag_t *diag);

/* Fills the reserve of file descriptors, which lets a checkpoint be written when connections have
   taken all others, up to 8 descriptors, or as far as the system has free ones.  Any thread; does
   not fail. */
void mr_fd_reserve(void);
/* Closes one of the reserve, after a call that found no free descriptor, so that it can be retried.
   Returns false if the reserve is empty.  Any thread. */
bool mr_fd_release(void);

MR_END_DECLS

#endif
