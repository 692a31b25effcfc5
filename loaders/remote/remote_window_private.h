/* The inside of the window: remote_units.c has the table of units, remote_chunks.c their requests,
   remote_keep.c writes to the cache, remote_blocks.c reads what was not announced, and
   remote_window.c issues uses and takes them.

   All that follows is called with the lock of the window held.  The table of units moves when one
   is added, and the lock is given up while bytes are copied, read or written: a pointer to a unit
   is valid until then. */
#ifndef MR_LOADERS_REMOTE_REMOTE_WINDOW_PRIVATE_H
#define MR_LOADERS_REMOTE_REMOTE_WINDOW_PRIVATE_H

#include <pthread.h>

#include "loaders/remote/belady.h"
#include "loaders/remote/remote_pending.h"
#include "loaders/remote/remote_window.h"

enum { MR_NO_UNIT = -1 };

/* Bytes of one request, for one unit or neighbours; or a unit's own copy of such bytes. */
typedef struct chunk {
  mr__request_t *request; /* NULL once it has succeeded */
  mr__window_t *window;
  uint8_t *data; /* [size] of the object from `at` on */
  int64_t at, size;
  int64_t wasted;            /* bytes that belong to no unit and are counted as waste */
  const mr_object_t *object; /* request->object is the peer's, if a peer is asked */
  int owner;                 /* the peer that is asked for it; -1: the server */
  bool asks_peer;
  int refs;      /* units that hold it */
  int32_t first; /* of its units, in use until it is done */
  bool spread;   /* its units are used at different times */
  bool done;
} mr__chunk_t;

typedef struct unit {
  const mr_object_t *object; /* NULL: free */
  int64_t at, size;
  mr__chunk_t *chunk; /* NULL: not in memory */
  int32_t pending;    /* its handle while it is to be requested; MR_PENDING_NONE: it is not */
  int32_t waiting;    /* uses issued and not taken */
  int32_t taken;      /* uses taken that still lie in the list of issued ones */
  int32_t pins;       /* threads that copy it */
  int32_t owner;      /* the peer that keeps it; -1: this process */
  int64_t number;     /* of the last use issued */
  mr__stamp_t stamp;  /* of its block on the disk */
  int32_t sibling;    /* the next unit of its chunk */
  int32_t next;       /* in its bucket, or in the list of free ones */
  bool direct;        /* the server is asked for it, though a peer keeps it */
  bool on_disk;
  bool writes, goes; /* waits to be written; is to be evicted when idle */
} mr__unit_t;

struct mr__window {
  mr__window_conf_t conf;
  pthread_mutex_t lock;   /* guards all below */
  pthread_cond_t arrived; /* a chunk is done */
  mr_belady_t *order;
  mr__unit_t *unit; /* [cap]; moves when it grows */
  int32_t n_units, cap, free_units;
  int32_t *bucket; /* [n_buckets] first unit */
  uint32_t n_buckets;
  int32_t *issued; /* ring of units, use i at i % issued_cap */
  size_t issued_cap;
  int64_t tail, head, newest; /* uses issued: oldest kept, next; the furthest use taken */
  int64_t held;               /* bytes of chunks */
  mr__pending_t *pending[2];  /* to be requested from the server; from peers */
  int64_t flying;             /* requests to the server */
  int64_t going;              /* bytes of units on the disk that are to be evicted when idle */
  mr__window_counts_t counts;
  bool starved; /* memory for the future ran out: nothing more is announced */
  /* Writing. */
  int32_t *to_write; /* ring, [write_cap] */
  size_t write_cap;
  int64_t write_tail, write_head, writing; /* writing: bytes that wait to be written */
  pthread_cond_t work;
  pthread_cond_t written;   /* fewer bytes wait to be written, or are on their way there */
  int64_t loading, serving; /* bytes of loads and of answers to peers in progress */
  int64_t writes;           /* blocks that were written, or tried */
  bool stands_still;        /* the disk has written nothing for long */
  pthread_t keeper;
  bool keeps, ends, said_full, said_slow, closing;
};

/* ---- remote_units.c ---- */

/* Gives the table n buckets, a power of two.  False without memory. */
bool mr__units_rehash(mr__window_t *w, uint32_t n);

/* Returns the unit that is bytes [at,at+size) of an object; MR_NO_UNIT without one. */
int32_t mr__unit_find(const mr__window_t *w, const mr_object_t *o, int64_t at, int64_t size);

/* Adds it; MR_NO_UNIT without memory. */
int32_t mr__unit_add(mr__window_t *w, const mr_object_t *o, int64_t at, int64_t size);

/* Notes whether a unit is to be evicted, and has a file. */
void mr__unit_place(mr__window_t *w, mr__unit_t *u, bool goes, bool on_disk);
void mr__unit_evict(mr__window_t *w, mr__unit_t *u);

/* Gives back the bytes of a unit that needs them no more, and forgets it if nothing is known of it.
 */
void mr__unit_settle(mr__window_t *w, int32_t i);

/* The units that wait for a request to whom this one will be sent to. */
mr__pending_t *mr__unit_pending(const mr__window_t *w, const mr__unit_t *u);
void mr__unit_end_pending(mr__window_t *w, mr__unit_t *u); /* also one that does not wait */
static inline bool mr__unit_is_pending(const mr__unit_t *u) {
  return u->pending != MR_PENDING_NONE;
}

void mr__chunk_drop(mr__window_t *w, mr__chunk_t *c); /* a unit holds it no more; NULL is fine */
static inline mr_err_t mr__chunk_code(const mr__chunk_t *c) {
  return c->request ? c->request->code : MR_OK;
}

/* ---- remote_chunks.c ---- */

/* Notes that the unit is to be requested, with `direct` from the server in any case.  False without
   memory: who takes it asks the server. */
bool mr__unit_fetch(mr__window_t *w, int32_t i, bool direct);

/* Requests a unit that waits, and with it the neighbours that wait too.  Without memory no request
   is made: the reader that takes it asks the server. */
void mr__unit_send(mr__window_t *w, int32_t i);

/* Requests what is due first, as far as connections are free; what peers keep, at once. */
void mr__window_send_due(mr__window_t *w);

/* ---- remote_keep.c ---- */

/* Bytes that may wait to be written: above that, blocks are not kept. */
int64_t mr__window_writes_most(const mr__window_t *w);

/* Has a unit in memory written to the cache; one that cannot be is dropped from what is kept. */
void mr__unit_keep(mr__window_t *w, int32_t i);

void *mr__window_keep(void *window); /* the thread that writes */

/* ---- remote_window.c ---- */

/* Copies bytes [from,from+n) of want's object, which lie in the unit, to their place in want->to.
   The unit is pinned.  MR_END if its file is lost or damaged; fails as its request does. */
mr_err_t mr__unit_copy(mr__window_t *w, int32_t i, const mr_remote_want_t *want, int64_t from,
                       int64_t n, mr_diag_t *diag);

#endif
