/* A file of a sharded data set, here or remote, as the scan that makes its index reads it: from
   front to back, with gaps. */
#ifndef MR_LOADERS_SHARDS_SHARD_FILE_H
#define MR_LOADERS_SHARDS_SHARD_FILE_H

#include "base/trusted.h"
#include "loaders/remote/remote.h"

typedef struct mr_shard_file {
  const char *path; /* for sentences */
  int64_t size;
  int fd; /* of a local file; -1: remote */
  mr_remote_t *remote;
  const mr_object_t *object;
  mr_trust_t trust; /* who may have kept what is made of it, beside this user */
  bool once;        /* its bytes will not be read again: the cache need not keep them */
  uint8_t *window;  /* [cap] bytes from window_at on, window_n of them valid */
  size_t cap, window_n;
  int64_t window_at, next; /* next: behind the last read */
  int streak;              /* reads that followed each other */
  const void *ctx;         /* of who scans it, as in mr_shards_conf_t */
} mr_shard_file_t;

/* Reads [at,at+n) into `to`.  MR_OK; MR_END if the file ends before that, and `to` is unspecified
   then; MR_ERR_IO, MR_ERR_DATA (remote.h) and MR_ERR_NOMEM with a sentence that names the file. One
   thread; blocks.  Reads that follow each other are served from a window, as are all reads of a
   remote file, which go through its cache and its peers. */
mr_err_t mr_shard_file_read(mr_shard_file_t *f, int64_t at, void *to, size_t n, mr_diag_t *diag);

/* Gives back the window; the descriptor stays open. */
void mr_shard_file_fini(mr_shard_file_t *f);

#endif
