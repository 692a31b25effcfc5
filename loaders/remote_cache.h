/* Blocks of remote objects in a folder on this machine, which several runs share.

   A block is a file that appears whole: it is written under another name and renamed.  Its last
   bytes say which bytes of which state of which object it holds, with a digest of all, so that
   neither a killed run, a full disk nor a foreign file can give a wrong byte. */
#ifndef MR_LOADERS_REMOTE_CACHE_H
#define MR_LOADERS_REMOTE_CACHE_H

#include "loaders/remote.h"

typedef struct mr__cache mr__cache_t;

/* Opens the folder, which is made if it is missing, for `limit` bytes in blocks of `block` bytes.
   Blocks that are to be removed and are still used may take up to `slack` bytes more.
   What killed runs left is removed, unless another run uses the folder.  The caller ends *out with
   mr__cache_close.  MR_ERR_IO, MR_ERR_NOMEM; *out is NULL then. */
mr_err_t mr__cache_open(mr__cache_t **out, const char *folder, int64_t limit, int64_t slack,
                        int64_t block, mr_diag_t *diag);
void mr__cache_close(mr__cache_t *c); /* NULL is fine; the blocks stay */

/* Larger objects are not cached: each block is looked for when an object is opened, and a server
   may say any size. */
#define MR__CACHE_OBJECT_MAX ((int64_t)1 << 40)

/* True if an object can be cached: the names of its blocks differ from version to version, and it
   has at most MR__CACHE_OBJECT_MAX bytes. */
bool mr__cache_takes(const mr_object_t *o);

/* Whether there is a file for the block at byte `at` of o; only a read shows whether it is intact.
   Any thread, as all calls below. */
bool mr__cache_has(const mr__cache_t *c, const mr_object_t *o, int64_t at);

/* Copies bytes [from,from+n) of the block at byte `at` to `to`.  False if the block is not there,
   damaged or of something else; it is removed then.  A block is verified as a whole when *verified
   is false, which it sets. */
bool mr__cache_read(mr__cache_t *c, const mr_object_t *o, int64_t at, int64_t from, int64_t n,
                    void *to, bool *verified);

/* Writes a block.  MR_END if the folder is full, perhaps with blocks of other runs; MR_ERR_IO with
   a sentence. */
mr_err_t mr__cache_write(mr__cache_t *c, const mr_object_t *o, int64_t at, const void *data,
                         int64_t n, mr_diag_t *diag);

void mr__cache_remove(mr__cache_t *c, const mr_object_t *o, int64_t at);

/* Makes room for `bytes` of this run's blocks by removing the oldest blocks of other objects than
   object[0,n), unless another run uses the folder.  Returns how many bytes this run may use. */
int64_t mr__cache_share(mr__cache_t *c, const mr_object_t *const *object, int n);

#endif
