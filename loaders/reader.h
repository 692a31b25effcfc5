/* Batched reads of a few files, in one of four ways that give the same bytes and the same errors:

   uring   io_uring with registered files and buffers, through the page cache
   direct  io_uring with O_DIRECT: past the page cache, from the device into place
   pread   pread by 32 threads that all readers of the process share
   mmap    copies out of a mapping: the quickest where the page cache holds the data already

   A reader belongs to one thread at a time. */
#ifndef MR_LOADERS_READER_H
#define MR_LOADERS_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
  MR_READER_FILES_MAX = 16,
  MR_READER_WINDOW = 1 << 20,
  MR_READER_DEPTH = 32,
  MR_READER_AHEAD = 256 /* reads that can be begun together */
};

typedef enum mr_read_way {
  MR_READ_AUTO,
  MR_READ_URING,
  MR_READ_DIRECT,
  MR_READ_PREAD,
  MR_READ_MMAP,
} mr_read_way_t;
#define MR_READ_CHOICES "auto|uring|direct|pread|mmap" /* in the order above, for a setting */

const char *mr_read_way_name(mr_read_way_t b); /* as in MR_READ_CHOICES */

typedef struct mr_reader mr_reader_t;

typedef struct mr_reader_conf {
  const char *const *path; /* [n_files] copied */
  int n_files;             /* [1,MR_READER_FILES_MAX] */
  unsigned depth;          /* reads in flight at most, [1,4096]; 0: MR_READER_DEPTH */
  size_t window;           /* bytes of one read at most; 0: MR_READER_WINDOW */
  void *buffer; /* registered with the kernel if it allows; NULL: none.  Lives until close */
  size_t buffer_len;
  mr_read_way_t backend; /* AUTO: what the machine allows and the data needs */
  bool once;             /* for AUTO: each byte is read once and in order, not records at random */
  mr_read_way_t chosen;  /* for AUTO: what another reader of these files has chosen; AUTO: look */
} mr_reader_conf_t;

/* One read: len bytes at offset of file into dst (inside the registered buffer or anywhere). */
typedef struct mr_read {
  int file;
  int64_t offset;
  size_t len;
  void *dst;
} mr_read_t;

/* Opens every file.  MR_ERR_IO with the path and the system's reason; MR_ERR_UNAVAILABLE if the
   machine refuses a backend that was asked for by name (AUTO, and the name in MILLRACE_IO which
   stands in for AUTO, then fall back to pread). */
mr_err_t mr_reader_open(mr_reader_t **out, const mr_reader_conf_t *conf, mr_diag_t *diag);
void mr_reader_close(mr_reader_t *r); /* NULL is fine */

/* Blocks until all n reads are whole.  Short reads go on, interrupted ones are repeated;
   neighbours in a file become one read.  MR_ERR_IO (the system refused) or MR_ERR_DATA (the file
   ends before), with path and offset; then what dst holds is unspecified, but nothing is in flight
   any more. */
mr_err_t mr_reader_read(mr_reader_t *r, const mr_read_t *read, size_t n, mr_diag_t *diag);

/* The same in two: begin starts n <= MR_READER_AHEAD reads and does not wait for them, finish does
   and tells their failure.  read and what it points to last until then; no other call but close
   may come between.  Only where begins is true (a mapping cannot read ahead by itself). */
bool mr_reader_begins(const mr_reader_t *r);
mr_err_t mr_reader_begin(mr_reader_t *r, const mr_read_t *read, size_t n, mr_diag_t *diag);
mr_err_t mr_reader_finish(mr_reader_t *r, mr_diag_t *diag);

/* Bytes [offset,offset+len) of a file, in windows that are in flight together. */
mr_err_t mr_reader_read_big(mr_reader_t *r, int file, int64_t offset, size_t len, void *dst,
                            mr_diag_t *diag);

int64_t mr_reader_size(const mr_reader_t *r, int file);     /* bytes at open */
const char *mr_reader_path(const mr_reader_t *r, int file); /* lives until close */
mr_read_way_t mr_reader_backend(const mr_reader_t *r);      /* never AUTO */

/* Why it is this one: half a sentence. */
const char *mr_reader_why(const mr_reader_t *r);

/* NULL while AUTO could choose freely, else why it could not: "io_uring is refused (...), reading
   with pread in 32 threads". */
const char *mr_reader_fallback(const mr_reader_t *r);

/* The same for the first reader of this process that fell back, for a program to say once; NULL
   while none did.  Static text; any thread. */
const char *mr_reader_fallback_seen(void);

#endif
