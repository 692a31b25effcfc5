/* Records that a container keeps together in one part of its file, usually compressed.  A part that
   has been read is opened into a group of items; a record is one of them.  A burst reads and opens
   each part once, however many of its records lie in it.  Each worker keeps the groups that it
   opened last, since records of neighbouring positions lie in one: up to
   MR_SHARD_GROUPS_KEPT of them, and no more of them once they take MR_SHARD_GROUPS_BYTES. */
#ifndef MR_LOADERS_SHARDS_SHARD_GROUPS_H
#define MR_LOADERS_SHARDS_SHARD_GROUPS_H

#include "loaders/shards/shard_reads.h"

/* The items of a part, one after the other; memory is kept for the next group. */
typedef struct mr_shard_group {
  uint8_t *data; /* [cap] heap */
  size_t cap;
  int64_t n;   /* items */
  size_t *end; /* [n] bytes before the end of item i; heap */
  size_t cap_end;
  void *codec; /* of the function that opens groups (loaders/shards/codec.h) */
} mr_shard_group_t;

/* Makes room for a group of this many bytes and items.  MR_ERR_NOMEM. */
mr_err_t mr_shard_group_room(mr_shard_group_t *g, size_t bytes, size_t items, mr_diag_t *diag);
void mr_shard_group_fini(mr_shard_group_t *g); /* zeroed is fine */

/* Opens the part data[0,size), which begins at byte `at` of its file, and may change the part.
   MR_ERR_DATA, whose sentence need not name the file; MR_ERR_UNAVAILABLE if its compression is not
   built in; MR_ERR_NOMEM.  *out is empty then. */
typedef mr_err_t mr_shard_group_fn(uint8_t *data, int64_t at, int64_t size, mr_shard_group_t *out,
                                   mr_diag_t *diag);

enum { MR_SHARD_GROUPS_KEPT = 4, MR_SHARD_GROUPS_BYTES = 32 << 20 };

typedef struct mr_shard_groups mr_shard_groups_t;

/* The caller ends *out with mr_shard_groups_close.  MR_ERR_NOMEM; *out is NULL then. */
mr_err_t mr_shard_groups_open(mr_shard_groups_t **out, mr_shard_group_fn *group, mr_diag_t *diag);
void mr_shard_groups_close(mr_shard_groups_t *g); /* NULL is fine */

/* Reads by r the parts want[0,n) that this worker has not kept, and sets the data and sizes of
   want[0,n) to those of their items.  These belong to g and live until the next call of this
   worker; alignment and zeros behind are those of mr_shard_reads_fetch.  Several workers may call
   at once. Fails as mr_shard_reads_fetch; MR_ERR_DATA with the file and the byte for a part that
   cannot be opened or lacks the item; MR_ERR_UNAVAILABLE as mr_shard_group_fn; MR_ERR_NOMEM. */
mr_err_t mr_shard_groups_fetch(mr_shard_groups_t *g, mr_shard_reads_t *r, int worker,
                               mr_shard_want_t *want, int n, mr_diag_t *diag);

#endif
