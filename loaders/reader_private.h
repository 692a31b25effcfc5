#ifndef MR_LOADERS_READER_PRIVATE_H
#define MR_LOADERS_READER_PRIVATE_H

#include "loaders/reader.h"
#include "loaders/reader_choose.h"

/* One of the four ways. */
typedef struct mr_reader_way {
  bool merges; /* a read costs more than copying a few pages: neighbours are worth joining */
  mr_err_t (*open)(mr_reader_t *r, mr_diag_t *diag); /* ERR_UNAVAILABLE: the machine refuses it */
  void (*close)(mr_reader_t *r);                     /* also after a failed open */
  mr_err_t (*read)(mr_reader_t *r, const mr_read_t *read, size_t n, mr_diag_t *diag);

  /* The same in two: begin never waits, finish tells failures.  read lasts until then.  NULL: this
     way cannot. */
  void (*begin)(mr_reader_t *r, const mr_read_t *read, size_t n);
  mr_err_t (*finish)(mr_reader_t *r, mr_diag_t *diag);
} mr_reader_way_t;

extern const mr_reader_way_t mr__reader_uring, mr__reader_direct, mr__reader_pread, mr__reader_mmap;

struct mr_reader {
  int n_files;
  int fd[MR_READER_FILES_MAX];
  int64_t size[MR_READER_FILES_MAX];
  char *path[MR_READER_FILES_MAX];
  size_t window;
  unsigned depth;
  char *buffer;
  size_t buffer_len;
  mr_read_way_t backend;
  const mr_reader_way_t *way;
  void *state;                   /* of the way */
  char *scratch;                 /* where joined neighbours land before they are copied apart */
  struct mr_reader_group *ahead; /* reads that are begun (reader_join.c); NULL: none ever were */
  bool begun;
  char fallback[MR_READER_WHY], why[MR_READER_WHY];
};

/* A failed read of what is left: code and sentence.  got: 0 at the end of the file, else -errno. */
mr_err_t mr__reader_fail(const mr_reader_t *r, const mr_read_t *left, int64_t got, mr_diag_t *diag);

/* One read from beginning to end with pread alone, by this thread. */
mr_err_t mr__reader_plain(const mr_reader_t *r, mr_read_t left, mr_diag_t *diag);

/* Does n reads with neighbours joined (reader_join.c) by calls of r->way->read. */
mr_err_t mr__reader_joined(mr_reader_t *r, const mr_read_t *read, size_t n, mr_diag_t *diag);

/* The same in two, for n <= MR_READER_AHEAD reads; r->ahead is freed with the reader. */
mr_err_t mr__reader_joined_begin(mr_reader_t *r, const mr_read_t *read, size_t n, mr_diag_t *diag);
mr_err_t mr__reader_joined_finish(mr_reader_t *r, mr_diag_t *diag);
enum { MR_READER_JOIN_BYTES = 1 << 18 /* of scratch */ };

#endif
