/* Batched reads of a few files: io_uring with registered files and buffers, or pread where the
   kernel refuses io_uring (old kernels, containers' seccomp) or MILLRACE_IO=pread asks for it.
   Both give the same bytes and the same errors.

   A reader belongs to one thread at a time. */
#ifndef MR_LOADERS_READER_H
#define MR_LOADERS_READER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { MR_READER_FILES_MAX = 16, MR_READER_WINDOW = 1 << 20, MR_READER_DEPTH = 32 };

typedef struct mr_reader mr_reader_t;

typedef struct mr_reader_conf {
  const char *const *path; /* [n_files] copied */
  int n_files;             /* [1,MR_READER_FILES_MAX] */
  unsigned depth;          /* reads in flight at most, [1,4096]; 0: MR_READER_DEPTH */
  size_t window;           /* bytes of one read at most; 0: MR_READER_WINDOW */
  void *buffer; /* registered with the kernel if it allows; NULL: none.  Lives until close */
  size_t buffer_len;
} mr_reader_conf_t;

/* One read: len bytes at offset of file into dst (inside the registered buffer or anywhere). */
typedef struct mr_read {
  int file;
  int64_t offset;
  size_t len;
  void *dst;
} mr_read_t;

/* Opens every file.  MR_ERR_IO with the path and the system's reason. */
mr_err_t mr_reader_open(mr_reader_t **out, const mr_reader_conf_t *conf, mr_diag_t *diag);
void mr_reader_close(mr_reader_t *r); /* NULL is fine */

/* Blocks until all n reads are whole.  Short reads go on, interrupted ones are repeated.
   MR_ERR_IO (the system refused) or MR_ERR_DATA (the file ends before), with path and offset;
   then what dst holds is unspecified, but nothing is in flight any more. */
mr_err_t mr_reader_read(mr_reader_t *r, const mr_read_t *read, size_t n, mr_diag_t *diag);

/* Bytes [offset,offset+len) of a file, in windows that are in flight together. */
mr_err_t mr_reader_read_big(mr_reader_t *r, int file, int64_t offset, size_t len, void *dst,
                            mr_diag_t *diag);

int64_t mr_reader_size(const mr_reader_t *r, int file); /* bytes at open */
const char *mr_reader_path(const mr_reader_t *r, int file);

/* NULL while io_uring is used, else why not: "io_uring is refused (...), reading with pread". */
const char *mr_reader_fallback(const mr_reader_t *r);

/* The same for the first reader of this process that fell back, for a program to say once; NULL
   while none did.  Static text; any thread. */
const char *mr_reader_fallback_seen(void);

#endif
