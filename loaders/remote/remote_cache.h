/* Blocks of remote objects in a folder on this machine, which several runs share.

   The blocks of an object lie in one file (remote_object.h), each with a digest that says which
   bytes of which state of which object it holds, so that neither a killed run, a full disk nor a
   foreign file can give a wrong byte.

   The limit counts the blocks' bytes, of all runs; a file has 16 bytes more for each block of its
   object, and 48.  A run that is alone in the folder may exceed the limit by blocks that it is to
   remove and that are still used, at most `slack` bytes, and is back within it when it ends; a
   killed run may leave them until the next start.  Runs that are in the folder together never
   exceed it.

   While other runs use the folder, a run adds blocks and removes none but damaged ones, and those
   by which it exceeds the limit: a full folder then stays as it is.  So does one on a file system
   that cannot make holes in files.  All mr__cache_t that are open, also in one process, count as
   runs. */
#ifndef MR_LOADERS_REMOTE_REMOTE_CACHE_H
#define MR_LOADERS_REMOTE_REMOTE_CACHE_H

#include <stddef.h>

#include "base/err.h"
#include "loaders/remote/object.h"

typedef struct mr__cache mr__cache_t;

/* Opens the folder, which is made if it is missing, for `limit` bytes in blocks of `block` bytes,
   and `slack` bytes for blocks that are to be removed.  group: members of the groups of this
   process may own and write what lies there.  The caller ends *out with mr__cache_close.  MR_END,
   with a sentence in diag, if the folder's disk has no room for the cache's own files; MR_ERR_IO,
   MR_ERR_NOMEM, MR_ERR_UNAVAILABLE if others could have written there (mr_trusted); *out is NULL
   then. */
mr_err_t mr__cache_open(mr__cache_t **out, const char *folder, int64_t limit, int64_t slack,
                        int64_t block, bool group, mr_diag_t *diag);
void mr__cache_close(mr__cache_t *c); /* NULL is fine; the blocks stay */

/* Larger objects are not cached: a server may say any size. */
#define MR__CACHE_OBJECT_MAX ((int64_t)1 << 40)

/* True if an object can be cached: the names of its blocks differ from version to version, and it
   has at most MR__CACHE_OBJECT_MAX bytes. */
bool mr__cache_takes(const mr_object_t *o);

enum { MR__CACHE_STATE = 33 };

/* Writes 32 digits, and a NUL, that name an object in its state; a hash of the same. */
void mr__cache_state(const mr_object_t *o, char out[MR__CACHE_STATE]);
void mr__cache_state_hash(const mr_object_t *o, uint64_t out[2]);

/* Whether the folder has the block at byte `at` of o; only a read shows whether it is intact. Any
   thread, as all calls below. */
bool mr__cache_has(const mr__cache_t *c, const mr_object_t *o, int64_t at);

/* By what a block that was verified as a whole is known again; 0: it was not. */
typedef uint64_t mr__stamp_t;

/* Copies bytes [from,from+n) of the block at byte `at` to `to`.  False if the block is not there,
   damaged or of something else; it is removed then.  A block that *stamp does not know is verified
   as a whole, and *stamp set. */
bool mr__cache_read(mr__cache_t *c, const mr_object_t *o, int64_t at, int64_t from, int64_t n,
                    void *to, mr__stamp_t *stamp);

/* Writes a block, and sets *stamp; not if it is there, or just being written, by another run, which
   must be verified: *stamp is 0 then.  `going`: bytes of blocks in the folder that the caller is to
   evict when they are no longer used; as far as the slack goes, the limit may be exceeded by them.
   MR_END if the folder is full, perhaps with blocks of other runs; MR_ERR_IO with a sentence. */
mr_err_t mr__cache_write(mr__cache_t *c, const mr_object_t *o, int64_t at, const void *data,
                         int64_t n, int64_t going, mr__stamp_t *stamp, mr_diag_t *diag);

/* Removes a damaged block, also one that other runs use.  If it is not there nothing changes. */
void mr__cache_remove(mr__cache_t *c, const mr_object_t *o, int64_t at);

/* Removes a block that the caller does not want to keep, unless other runs use the folder and this
   one does not exceed the limit. */
void mr__cache_evict(mr__cache_t *c, const mr_object_t *o, int64_t at);

/* A block that the folder holds already. */
typedef struct mr__cached {
  const mr_object_t *object;
  int64_t at;
} mr__cached_t;

/* Lists the folder once; waits for another run that lists it.  Unless another run uses it, removes
   what killed runs have left, and the oldest files of other objects than object[0,n) until all of
   theirs have room.  Returns how many bytes this run may use; *own[0,*n_own) are the blocks of its
   objects, heap, the caller frees it. */
int64_t mr__cache_share(mr__cache_t *c, const mr_object_t *const *object, int n, mr__cached_t **own,
                        size_t *n_own);

/* Notes that the peer of this name keeps its blocks in this folder.  Without room on the disk
   nothing is noted. */
void mr__cache_note_peer(mr__cache_t *c, const char *name);

/* Whether a peer of this name has been noted, by any run. */
bool mr__cache_knows_peer(const mr__cache_t *c, const char *name);

#endif
