#ifndef MR_LOADERS_READER_PRIVATE_H
#define MR_LOADERS_READER_PRIVATE_H

#include <liburing.h>
#include <stdbool.h>

#include "loaders/reader.h"

struct mr_reader {
  int n_files;
  int fd[MR_READER_FILES_MAX];
  int64_t size[MR_READER_FILES_MAX];
  char *path[MR_READER_FILES_MAX];
  size_t window;
  unsigned depth;
  bool ring_open, files_fixed, buffer_fixed;
  char *buffer;
  size_t buffer_len;
  struct io_uring ring;
  struct mr_reader_slot *slot; /* [depth] reads in flight */
  int *idle;                   /* [depth] stack of slots that are not */
  char fallback[160];          /* "" while io_uring is used */
};

/* A failed read of what is left: code and sentence.  got is 0 at the end of the file, else -errno.
 */
mr_err_t mr__reader_fail(const mr_reader_t *r, const mr_read_t *left, int64_t got, mr_diag_t *diag);

/* The two ways of mr_reader_read. */
mr_err_t mr__reader_pread(mr_reader_t *r, const mr_read_t *read, size_t n, mr_diag_t *diag);
mr_err_t mr__reader_uring(mr_reader_t *r, const mr_read_t *read, size_t n, mr_diag_t *diag);

/* Sets the ring up; on refusal writes r->fallback.  MR_ERR_NOMEM alone is a failure. */
mr_err_t mr__reader_ring_open(mr_reader_t *r, mr_diag_t *diag);
void mr__reader_ring_close(mr_reader_t *r);

#endif
