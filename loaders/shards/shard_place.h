/* Where the index file of a shard is looked for and written, and who writes it. */
#ifndef MR_LOADERS_SHARDS_SHARD_PLACE_H
#define MR_LOADERS_SHARDS_SHARD_PLACE_H

#include <stdbool.h>

#include "base/err.h"
#include "base/xio.h"

enum { MR_SHARD_PLACE_MAX = MR_PATH_MAX + 128, MR_SHARD_LOCK_MAX = MR_SHARD_PLACE_MAX + 48 };

/* Returns where to keep the index, and what was decompressed, of a file here or, with `remote`, at
   a URL: `where`, or `cache`, the folder of the cache of objects, if that is not NULL, the file is
   remote and where is NULL or "auto".  The text stays the caller's. */
const char *mr_shard_where(const char *where, bool remote, const char *cache);

/* Writes place number i, from 0, at which to look for the index of the file at path; where: the
   setting as in mr_shards_conf_t.index.  Returns false if there is no such place.  Any thread. */
bool mr_shard_place(const char *path, const char *where, int i, char out[MR_SHARD_PLACE_MAX]);

/* Writes the place for a new index, and makes its folder.  MR_ERR_IO if that is impossible;
   MR_ERR_CONFIG if there is no home for a cache. */
mr_err_t mr_shard_place_new(const char *path, const char *where, char out[MR_SHARD_PLACE_MAX],
                            mr_diag_t *diag);

/* Locks what is made at `path`, which a process may be about to make too: with `wait`, waits for
   that one.  from: a descriptor of the file that it is made from, which is locked itself, so that a
   killed process leaves nothing; -1, as of a remote object: a file beside `path` is.  Returns the
   descriptor that holds the lock, until mr_shard_unlock; -1 without one, and *busy says whether
   another process holds it, else there cannot be a lock here and several processes make the same.
   name: for mr_shard_unlock.  A process that ends gives its locks back. */
int mr_shard_lock(const char *path, int from, bool wait, char name[MR_SHARD_LOCK_MAX], bool *busy);
void mr_shard_unlock(int fd, const char *name); /* once it is made; -1 is fine */

#endif
