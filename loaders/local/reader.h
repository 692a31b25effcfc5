/* Batched reads of a few files, in one of four ways that give the same bytes and the same errors,
   or of a few objects of a server (loaders/remote/remote.h):

   uring io_uring with registered files and buffers, through the page cache direct  io_uring with
   O_DIRECT: from the device into place, bypassing the page cache pread pread by 32 threads that all
   readers of the process share mmap copies out of a mapping: the fastest where the page cache holds
   the data already

   One thread at a time uses a reader.  reader.c opens files and dispatches; each way has a file
   (reader_uring.c holds uring and direct), reader_join.c merges neighbouring reads. */
#ifndef MR_LOADERS_LOCAL_READER_H
#define MR_LOADERS_LOCAL_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "loaders/remote/remote.h"

enum {
  MR_READER_FILES_MAX = 16,
  MR_READER_WINDOW = 1 << 20,
  MR_READER_DEPTH = 32,
  MR_READER_AHEAD = 256 /* most reads of one mr_reader_begin */
};

typedef enum mr_read_way {
  MR_READ_AUTO,
  MR_READ_URING,
  MR_READ_DIRECT,
  MR_READ_PREAD,
  MR_READ_MMAP,
  MR_READ_REMOTE, /* objects; no setting chooses it */
} mr_read_way_t;
#define MR_READ_CHOICES "auto|uring|direct|pread|mmap" /* in the order above, for a setting */

const char *mr_read_way_name(mr_read_way_t b); /* returns the word of MR_READ_CHOICES, or "remote";
                                                  static */

typedef struct mr_reader mr_reader_t;

typedef struct mr_reader_conf {
  const char *const *path;          /* [n_files] copied */
  int n_files;                      /* [1,MR_READER_FILES_MAX] */
  mr_remote_t *remote;              /* of object; lives until close */
  const mr_object_t *const *object; /* [n_files] instead of the files at path, which are their names
                                       for sentences; backend is not used then.  NULL: files */
  unsigned depth;                   /* most reads in flight, [1,4096]; 0: MR_READER_DEPTH */
  size_t window;                    /* most bytes of one read; 0: MR_READER_WINDOW */
  void *buffer; /* registered with the kernel if it allows; the caller's until close; NULL: none */
  size_t buffer_len;
  mr_read_way_t backend; /* AUTO: chosen by machine and data (reader_choose.h) */
  bool once;             /* for AUTO: each byte is read once and in order, not records at random */
  mr_read_way_t chosen;  /* for AUTO: the choice of another reader of these files; AUTO: choose */
} mr_reader_conf_t;

/* One read: len bytes at offset of file into dst (inside the registered buffer or anywhere). */
typedef struct mr_read {
  int file;
  int64_t offset;
  size_t len;
  void *dst;
} mr_read_t;

/* Opens every file; the caller ends *out with mr_reader_close.  MR_ERR_IO with the path and the
   system's reason; MR_ERR_UNAVAILABLE if the machine refuses the backend that conf names.  AUTO,
   and the backend that the environment variable MILLRACE_IO sets in its place, fall back to pread
   instead.  MR_ERR_CONFIG for a bad n_files or depth; MR_ERR_NOMEM.  *out is NULL on failure. */
mr_err_t mr_reader_open(mr_reader_t **out, const mr_reader_conf_t *conf, mr_diag_t *diag);
void mr_reader_close(mr_reader_t *r); /* NULL is fine */

/* Blocks until all n reads are complete.  Short reads are continued, interrupted ones retried,
   neighbours in a file merged.  MR_ERR_IO (the system refused) or MR_ERR_DATA (the file ends
   early), with path and offset; MR_ERR_CONFIG for a read out of range.  After a failure the
   contents of dst are unspecified, but nothing is in flight. */
mr_err_t mr_reader_read(mr_reader_t *r, const mr_read_t *read, size_t n, mr_diag_t *diag);

/* The same in two calls: begin starts n <= MR_READER_AHEAD reads without waiting, finish waits and
   returns their failure as mr_reader_read does.  read[] and its buffers must live until finish;
   only mr_reader_close may come between.  begin itself returns MR_ERR_CONFIG or MR_ERR_NOMEM, and
   then nothing has begun.  Call both only where mr_reader_begins returns true: mmap cannot read
   ahead. */
bool mr_reader_begins(const mr_reader_t *r);
mr_err_t mr_reader_begin(mr_reader_t *r, const mr_read_t *read, size_t n, mr_diag_t *diag);
mr_err_t mr_reader_finish(mr_reader_t *r, mr_diag_t *diag);

/* Reads bytes [offset,offset+len) of a file into dst, in windows that are in flight together.
   Blocks; fails as mr_reader_read. */
mr_err_t mr_reader_read_big(mr_reader_t *r, int file, int64_t offset, size_t len, void *dst,
                            mr_diag_t *diag);

/* Returns the bytes of a file at open; its path, which belongs to r and lives until close; the way
   in use, never MR_READ_AUTO.  file is in [0,n_files). */
int64_t mr_reader_size(const mr_reader_t *r, int file);
const char *mr_reader_path(const mr_reader_t *r, int file);
mr_read_way_t mr_reader_backend(const mr_reader_t *r);

/* Returns why that way is used, as half a sentence, or "" if conf.chosen decided.  Belongs to r and
   lives until close. */
const char *mr_reader_why(const mr_reader_t *r);

/* Returns NULL while AUTO could choose freely, else why it could not: "io_uring is refused (...),
   reading with pread in 32 threads".  Belongs to r and lives until close. */
const char *mr_reader_fallback(const mr_reader_t *r);

/* Returns the same for the first reader of this process that fell back at open, so that a program
   can report it once; NULL while none did.  Static; any thread. */
const char *mr_reader_fallback_seen(void);

#endif
