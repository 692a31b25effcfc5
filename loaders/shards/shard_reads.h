/* Reads parts of many files at random, in parallel.

   Open files are shared by all workers, and only as many are kept open as the process can afford.
   Parts in the page cache are copied at once.  All others are first announced to the
   kernel (POSIX_FADV_WILLNEED), so that their reads are in flight together; then each is read. */
#ifndef MR_LOADERS_SHARDS_SHARD_READS_H
#define MR_LOADERS_SHARDS_SHARD_READS_H

#include "loaders/shards/shards.h"

enum {
  MR_SHARD_PART_MAX = 1 << 28, /* bytes of one part */
  MR_SHARD_HEAD_MAX = 4096,    /* bytes before it that may be read with it */
  MR_SHARD_PARTS_READ =
      MR_FIELDS_MAX + 1, /* of a record: one for each field, and a list of sizes */
};

typedef struct mr_shard_reads mr_shard_reads_t;

/* One part to read. */
typedef struct mr_shard_want {
  const mr_shard_t *shard;
  int64_t at, size;
  uint32_t item; /* as in mr_shard_part_t */
  bool pass;     /* announced, and not read: the caller has its bytes already */
  uint8_t *data; /* set by mr_shard_reads_fetch: 64-aligned, and 64 zeros follow the part; NULL: it
                    was passed */
} mr_shard_want_t;

/* The caller ends *out with mr_shard_reads_close.  Opens no file yet.  shards must live until then.
   MR_ERR_NOMEM; *out is NULL then. */
mr_err_t mr_shard_reads_open(mr_shard_reads_t **out, const mr_shards_t *shards, mr_diag_t *diag);
void mr_shard_reads_close(mr_shard_reads_t *r); /* NULL is fine */

/* Reads want[0,n) and sets their data, which belongs to r and lives until the next fetch of this
   worker, in [0,MR_MAX_READERS).  Several workers may call at once.  Blocks.  MR_ERR_IO,
   MR_ERR_DATA if a file has changed since its index was made, has become shorter, or a part is
   longer than MR_SHARD_PART_MAX; MR_ERR_NOMEM, also if no file can be opened because
   descriptors are missing. */
mr_err_t mr_shard_reads_fetch(mr_shard_reads_t *r, int worker, mr_shard_want_t *want, int n,
                              mr_diag_t *diag);

/* Tells the kernel that want[0,n) will be read soon; does not wait for their bytes.  Failures are
   left to the fetch. */
void mr_shard_reads_ahead(mr_shard_reads_t *r, const mr_shard_want_t *want, int n);

#endif
