/* The interface between reader.c and the ways of reading: reader_mmap.c, reader_pread.c, and the
   two of reader_uring.c (without.c in a build without liburing), over the merging of neighbouring
   reads in reader_join.c; and reader_remote.c for objects of a server. */
#ifndef MR_LOADERS_LOCAL_READER_PRIVATE_H
#define MR_LOADERS_LOCAL_READER_PRIVATE_H

#include "loaders/local/reader.h"
#include "loaders/local/reader_choose.h"

/* One of the ways. */
typedef struct mr_reader_way {
  bool merges; /* a read costs more than copying a few pages, so neighbours are worth merging */
  mr_err_t (*open)(mr_reader_t *r, mr_diag_t *diag); /* ERR_UNAVAILABLE: the machine refuses it */
  void (*close)(mr_reader_t *r);                     /* also after a failed open */
  mr_err_t (*read)(mr_reader_t *r, const mr_read_t *read, size_t n, mr_diag_t *diag);

  /* The same in two calls: begin never waits, finish returns failures.  read[] lives until then.
     NULL: this way cannot read ahead. */
  void (*begin)(mr_reader_t *r, const mr_read_t *read, size_t n);
  mr_err_t (*finish)(mr_reader_t *r, mr_diag_t *diag);
} mr_reader_way_t;

extern const mr_reader_way_t mr__reader_uring, mr__reader_direct, mr__reader_pread, mr__reader_mmap,
    mr__reader_remote;

struct mr_reader {
  int n_files;
  int fd[MR_READER_FILES_MAX];
  int64_t size[MR_READER_FILES_MAX];
  char *path[MR_READER_FILES_MAX];
  mr_remote_t *remote;
  const mr_object_t *object[MR_READER_FILES_MAX]; /* NULL: files */
  bool once;                                      /* as in mr_reader_conf_t */
  size_t window;
  unsigned depth;
  char *buffer;
  size_t buffer_len;
  mr_read_way_t backend;
  const mr_reader_way_t *way;
  void *state;        /* of the way */
  char *scratch;      /* [scratch_cap] merged reads land here before their parts are copied out */
  size_t scratch_cap; /* 0 before the first one; MR_READER_JOIN_BYTES at most */
  struct mr_reader_group *ahead; /* the reads begun (reader_join.c); NULL before the first begin */
  bool begun;
  char fallback[MR_READER_WHY], why[MR_READER_WHY];
};

/* Writes the sentence of a failed read with `left` still to read and returns its code: MR_ERR_DATA
   if got is 0, the end of the file, else MR_ERR_IO with errno -got. */
mr_err_t mr__reader_fail(const mr_reader_t *r, const mr_read_t *left, int64_t got, mr_diag_t *diag);

/* Does one whole read with pread in this thread.  Blocks; fails as mr__reader_fail. */
mr_err_t mr__reader_plain(const mr_reader_t *r, mr_read_t left, mr_diag_t *diag);

/* Does n reads, neighbours merged (reader_join.c), by calls of r->way->read; fails as those do. */
mr_err_t mr__reader_joined(mr_reader_t *r, const mr_read_t *read, size_t n, mr_diag_t *diag);

/* The same in two calls, for n <= MR_READER_AHEAD reads; r->ahead is freed with the reader.  begin
   returns MR_ERR_NOMEM with nothing begun. */
mr_err_t mr__reader_joined_begin(mr_reader_t *r, const mr_read_t *read, size_t n, mr_diag_t *diag);
mr_err_t mr__reader_joined_finish(mr_reader_t *r, mr_diag_t *diag);
enum { MR_READER_JOIN_BYTES = 1 << 18 /* of scratch, at most */ };

#endif
