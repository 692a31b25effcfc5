/* Fetches what the next steps need of remote objects, in the order of its use.  It stays in memory
   until it is used, and in the cache as long as Belady's rule says.

   A unit is fetched and cached as a whole: with a cache it is a block of an object, without one
   exactly a part that is used.  Neighbouring units that are to be fetched share a request, whatever
   the order of their use. */
#ifndef MR_LOADERS_REMOTE_REMOTE_WINDOW_H
#define MR_LOADERS_REMOTE_REMOTE_WINDOW_H

#include "loaders/remote/remote_cache.h"
#include "loaders/remote/remote_engine.h"
#include "loaders/remote/remote_peers.h"

typedef struct mr__window mr__window_t;

typedef struct mr__window_conf {
  mr__engine_t *engine;
  int64_t ahead;       /* bytes in memory, used or not; a little more for what is due at once */
  int64_t connections; /* most requests to the server at a time, but for what is due at once */
  mr__cache_t *cache;  /* NULL: none; the caller's until destroy */
  int64_t block;       /* bytes of its blocks */
  uint32_t capacity;   /* blocks that this run may keep */
  double patience;     /* s without a write after which a load does not wait for the disk */
  mr__peers_t *peers;  /* NULL: none; needs a cache */
  mr__engine_t *peer_engine; /* for requests to peers, without retries */
} mr__window_conf_t;

/* Returns a window, which the caller destroys; NULL without memory.  *conf is copied. */
mr__window_t *mr__window_create(const mr__window_conf_t *conf);
void mr__window_destroy(mr__window_t *w); /* NULL is fine; the engine must be closed before */

/* Takes over the blocks that the cache holds already; those for which there is no room are removed.
 */
void mr__window_take_cached(mr__window_t *w, const mr__cached_t *block, size_t n);

/* Appends the parts want[0,n) to what is known of the future.  Returns how many more are worth
   knowing now.  Any thread; does not block. */
int64_t mr__window_tell(mr__window_t *w, const mr_remote_want_t *want, int n);

/* Begins to fetch what is due soon, as far as memory allows.  Any thread; does not block. */
void mr__window_begin(mr__window_t *w);

/* Copies a part to want->to; if that is NULL, only ends its use and returns MR_OK.  Calls follow
   the announced order roughly: several threads may be a few thousand uses apart.  MR_OK.  MR_END if
   the part was not announced or is lost: the caller then asks the server.  Otherwise the failure of
   its request.  Any thread; blocks. */
mr_err_t mr__window_take(mr__window_t *w, const mr_remote_want_t *want, mr_diag_t *diag);

/* Reads a part that was not announced, of an object that can be cached; the window has a cache.
   Blocks come from memory, the cache, the peer that keeps them or the server, and stay in the cache
   while there is room.  MR_END if blocks are lost: the caller then asks the server.  Any thread,
   several at once; blocks, also while the disk of the cache is slower than the network. */
mr_err_t mr__window_load(mr__window_t *w, const mr_remote_want_t *want, mr_diag_t *diag);

/* Copies bytes [at,at+n) of an object to `to`, for a peer: from memory, the cache or the server,
   which is asked once however many ask for a block at a time.  The blocks stay in the cache while
   there is room.  w is an mr__window_t.  Any thread; blocks. */
mr__serve_fn mr__window_serve;

/* From now on mr__window_serve fails, and failed requests to peers are not sent to the server. */
void mr__window_end_serving(mr__window_t *w);

typedef struct mr__window_counts {
  int64_t uses, hits, lost; /* of units; lost: hits whose file was gone or damaged */
  int64_t unkept;           /* blocks that were not written since the disk was too slow */
} mr__window_counts_t;
void mr__window_count(mr__window_t *w, mr__window_counts_t *out);

#endif
