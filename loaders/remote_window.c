/* Uses are issued in order: each is counted against the cache by Belady's rule, and what must be
   fetched waits until a connection is free.  Then the unit that is due first is requested, and with
   it the neighbours in the object that wait too: a chunk, one request.  While connections are free,
   nothing waits for neighbours; while none is, more of them gather.  A thread writes what is to be
   kept to the cache.

   A unit's bytes stay in memory while uses of it are issued and not taken, a thread copies them, or
   they wait to be written.  Uses that are never taken (records that are replaced or left out) are
   given up when much later ones are taken. */
#include "loaders/remote_window.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "loaders/belady.h"
#include "loaders/remote_pending.h"

enum {
  GAP_MAX = 8 << 10,    /* bytes between neighbours that are used one after the other */
  JOINED_MAX = 8 << 20, /* bytes of one request of those */
  /* Of a request of neighbours that are used at different times: */
  SPREAD_GAP = 32 << 10, /* bytes between two, without a cache: fetched sooner than asked for; with
                            one, they are blocks, which are fetched once */
  SPREAD_WASTE = 4,      /* at most one byte in this number is not used */
  REQUEST_BYTES = 1 << 10, /* of headers, which a gap saves: not counted as waste */
  SPREAD_LEAST = 64 << 10, /* bytes of one, whatever `ahead` is */
  KNOWN_MAX = 1 << 22,     /* uses known with a cache */
  KNOWN_LEAST = 1 << 15,   /* uses known without one */
  SLACK = 1 << 15,         /* uses by which threads may be apart */
  NO_UNIT = -1,
  WRITES_LEAST = 32 << 20, /* bytes that may wait to be written, whatever `ahead` is */
};

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
} chunk_t;

typedef struct unit {
  const mr_object_t *object; /* NULL: free */
  int64_t at, size;
  chunk_t *chunk;  /* NULL: not in memory */
  int32_t pending; /* its handle while it is to be requested; MR_PENDING_NONE: it is not */
  int32_t waiting; /* uses issued and not taken */
  int32_t taken;   /* uses taken that still lie in the list of issued ones */
  int32_t pins;    /* threads that copy it */
  int32_t owner;   /* the peer that keeps it; -1: this process */
  int64_t number;  /* of the last use issued */
  int32_t sibling; /* the next unit of its chunk */
  int32_t next;    /* in its bucket, or in the list of free ones */
  bool direct;     /* the server is asked for it, though a peer keeps it */
  bool on_disk, verified;
  bool writes, goes; /* waits to be written; is to be evicted when idle */
} unit_t;

struct mr__window {
  mr__window_conf_t conf;
  pthread_mutex_t lock;   /* guards all below */
  pthread_cond_t arrived; /* a chunk is done */
  mr_belady_t *order;
  unit_t *unit; /* [cap]; moves when it grows */
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
  pthread_t keeper;
  bool keeps, ends, said_full, said_slow, closing;
};

/* ---- units ---- */

static uint32_t hash_of(const mr__window_t *w, const mr_object_t *o, int64_t at) {
  uint64_t h = ((uint64_t)(uintptr_t)o ^ (uint64_t)at * UINT64_C(0x9E3779B97F4A7C15));
  h ^= h >> 29, h *= UINT64_C(0xBF58476D1CE4E5B9);
  return (uint32_t)(h >> 32) & (w->n_buckets - 1);
}

static bool rehash(mr__window_t *w, uint32_t n) {
  int32_t *bucket = malloc(n * sizeof *bucket);
  if (!bucket) return false;
  memset(bucket, 0xFF, n * sizeof *bucket);
  free(w->bucket);
  w->bucket = bucket, w->n_buckets = n;
  for (int32_t i = 0; i < w->n_units; i++) {
    unit_t *u = &w->unit[i];
    if (!u->object) continue;
    uint32_t h = hash_of(w, u->object, u->at);
    u->next = bucket[h], bucket[h] = i;
  }
  return true;
}

static int32_t find_unit(const mr__window_t *w, const mr_object_t *o, int64_t at, int64_t size) {
  int32_t i = w->bucket[hash_of(w, o, at)];
  while (i != NO_UNIT && (w->unit[i].object != o || w->unit[i].at != at || w->unit[i].size != size))
    i = w->unit[i].next;
  return i;
}

static int32_t add_unit(mr__window_t *w, const mr_object_t *o, int64_t at, int64_t size) {
  int32_t i = w->free_units;
  if (i == NO_UNIT && w->n_units == w->cap) {
    if (w->cap > INT32_MAX / 2) return NO_UNIT;
    unit_t *more = realloc(w->unit, 2 * (size_t)w->cap * sizeof *more);
    if (!more) return NO_UNIT;
    w->unit = more, w->cap *= 2;
    if (!rehash(w, 2 * w->n_buckets)) return NO_UNIT;
  }
  if (i == NO_UNIT)
    i = w->n_units++;
  else
    w->free_units = w->unit[i].next;
  uint32_t h = hash_of(w, o, at);
  w->unit[i] = (unit_t){.object = o,
                        .at = at,
                        .size = size,
                        .next = w->bucket[h],
                        .owner = -1,
                        .pending = MR_PENDING_NONE};
  w->bucket[h] = i;
  if (w->conf.peers && mr__cache_takes(o))
    w->unit[i].owner = mr__peers_owner(w->conf.peers, o, at / w->conf.block / MR_PEER_GROUP);
  if (w->unit[i].owner >= 0) mr_belady_bar(w->order, (uint32_t)i); /* its owner keeps it */
  return i;
}

/* Without a cache a unit is forgotten when nothing is known of it. */
static void forget_unit(mr__window_t *w, int32_t i) {
  unit_t *u = &w->unit[i];
  if (w->conf.cache || u->waiting || u->taken || u->pins ||
      mr_belady_distance(w->order, (uint32_t)i) >= 0)
    return;
  int32_t *at = &w->bucket[hash_of(w, u->object, u->at)];
  while (*at != i) at = &w->unit[*at].next;
  *at = u->next;
  u->object = NULL, u->next = w->free_units, w->free_units = i;
}

/* ---- chunks ---- */

static void drop_chunk(mr__window_t *w, chunk_t *c) {
  if (!c || --c->refs) return;
  w->held -= c->size;
  free(c->data), free(c->request), free(c);
}

static mr_err_t code_of(const chunk_t *c) { return c->request ? c->request->code : MR_OK; }

/* Whether a unit is to be evicted, and has a file. */
static void place_unit(mr__window_t *w, unit_t *u, bool goes, bool on_disk) {
  if (u->goes && u->on_disk) w->going -= u->size;
  u->goes = goes, u->on_disk = on_disk;
  if (u->goes && u->on_disk) w->going += u->size;
}

static void evict_unit(mr__window_t *w, unit_t *u) {
  if (u->on_disk) mr__cache_evict(w->conf.cache, u->object, u->at);
  place_unit(w, u, false, false);
  u->verified = false;
}

static mr__pending_t *pending_of(const mr__window_t *w, const unit_t *u) {
  return w->pending[u->owner >= 0 && !u->direct];
}

static bool is_pending(const unit_t *u) { return u->pending != MR_PENDING_NONE; }

static void end_pending(mr__window_t *w, unit_t *u) {
  if (is_pending(u)) mr__pending_remove(pending_of(w, u), u->pending);
  u->pending = MR_PENDING_NONE;
}

/* Gives back the bytes of a unit that needs them no more. */
static void settle_unit(mr__window_t *w, int32_t i) {
  unit_t *u = &w->unit[i];
  if (u->waiting || u->pins || u->writes) return;
  chunk_t *c = u->chunk;
  if (c && !c->done) return; /* on_arrival settles it */
  if (is_pending(u)) mr_belady_drop(w->order, (uint32_t)i), end_pending(w, u);
  u->chunk = NULL;
  drop_chunk(w, c);
  if (u->goes) evict_unit(w, u);
  forget_unit(w, i);
}

/* Whether the disk is so slow that what waits to be written would take the memory of what is to be
   fetched. */
static bool is_behind(const mr__window_t *w) {
  int64_t most = w->conf.ahead / 2 > WRITES_LEAST ? w->conf.ahead / 2 : WRITES_LEAST;
  return w->writing > most || (size_t)(w->write_head - w->write_tail) == w->write_cap;
}

static void queue_write(mr__window_t *w, int32_t i) {
  bool behind = is_behind(w);
  if (!w->keeps || !mr__cache_takes(w->unit[i].object) || behind) {
    w->counts.unkept += behind;
    mr_belady_drop(w->order, (uint32_t)i);
    if (behind && !w->said_slow)
      mr_notice(
          "setting cache: its disk is slower than the network: blocks that it has no time for "
          "are not kept");
    w->said_slow |= behind;
    return;
  }
  w->unit[i].writes = true, w->writing += w->unit[i].size;
  w->to_write[(size_t)w->write_head++ & (w->write_cap - 1)] = i;
  pthread_cond_signal(&w->work);
}

/* Gives a unit its own copy of its bytes, so that those of its neighbours can be given back before
   it is used.  Without memory it keeps them all. */
static void window_copy_out(mr__window_t *w, unit_t *u) {
  chunk_t *c = u->chunk, *own = malloc(sizeof *own);
  uint8_t *data = malloc((size_t)u->size);
  if (!own || !data) {
    free(own), free(data);
    return;
  }
  memcpy(data, c->data + (u->at - c->at), (size_t)u->size);
  *own = (chunk_t){.window = w,
                   .data = data,
                   .at = u->at,
                   .size = u->size,
                   .object = c->object,
                   .refs = 1,
                   .first = NO_UNIT,
                   .done = true};
  u->chunk = own, w->held += own->size;
  drop_chunk(w, c);
}

static void settle_chunk(mr__window_t *w, chunk_t *c) {
  mr_err_t code = code_of(c);
  c->refs++; /* it stays while its units are settled */
  if (code >= 0) free(c->request), c->request = NULL;
  for (int32_t i = c->first, next; i != NO_UNIT; i = next) {
    unit_t *u = &w->unit[i];
    next = u->sibling;
    if (code < 0) mr_belady_drop(w->order, (uint32_t)i);
    if (mr_belady_holds(w->order, (uint32_t)i) && !u->on_disk && !u->writes) queue_write(w, i);
    settle_unit(w, i);
    if (u->chunk == c && c->spread && code >= 0) window_copy_out(w, u);
  }
  drop_chunk(w, c);
}

static void window_send_due(mr__window_t *w);

static void on_arrival(mr__request_t *q, void *arg) {
  chunk_t *c = arg;
  mr__window_t *w = c->window;
  pthread_mutex_lock(&w->lock);
  if (c->asks_peer && q->code < 0 && q->code != MR_ERR_CANCEL && !w->closing) {
    mr__peers_failed(w->conf.peers, c->owner, q->diag.text);
    c->asks_peer = false, w->flying++;
    q->object = c->object, q->wanted = NULL, q->code = MR_OK, q->diag = (mr_diag_t){0};
    mr__engine_submit(w->conf.engine, q);
    pthread_mutex_unlock(&w->lock);
    return;
  }
  if (c->asks_peer && q->code >= 0) mr__peers_answered(w->conf.peers, c->owner);
  w->flying -= !c->asks_peer;
  c->done = true;
  settle_chunk(w, c);
  window_send_due(w);
  pthread_cond_broadcast(&w->arrived);
  pthread_mutex_unlock(&w->lock);
}

/* A peer may stop answering while many requests wait for a connection to it: each of them would
   take the whole time-out. */
static bool is_wanted(const mr__request_t *q, void *arg) {
  const chunk_t *c = arg;
  return !mr__peers_rests(c->window->conf.peers, c->owner);
}

static void submit_chunk(mr__window_t *w, chunk_t *c) {
  mr__request_t *q = c->request;
  c->data = malloc((size_t)c->size);
  q->at = c->at, q->size = c->size, q->to = c->data;
  q->done = on_arrival, q->arg = c;
  const mr_object_t *peers =
      c->owner >= 0 && c->data ? mr__peers_object(w->conf.peers, c->owner, c->object) : NULL;
  c->asks_peer = peers != NULL;
  q->wanted = peers ? is_wanted : NULL;
  q->object = peers ? peers : c->object;
  if (c->data) {
    w->flying += !peers;
    mr__engine_submit(peers ? w->conf.peer_engine : w->conf.engine, q);
    return;
  }
  q->code = mr_no_memory(&q->diag, "%lld bytes of records", (long long)c->size);
  c->done = true;
  settle_chunk(w, c);
  pthread_cond_broadcast(&w->arrived);
}

static int64_t end_of(const chunk_t *c) { return c->at + c->size; }

static void join_unit(mr__window_t *w, chunk_t *c, int32_t i, int64_t at, int64_t end) {
  unit_t *u = &w->unit[i];
  end_pending(w, u);
  w->held += end - at - c->size;
  c->at = at, c->size = end - at, c->refs++;
  u->chunk = c, u->sibling = c->first, c->first = i;
}

/* Joins what is used next, as long as it lies close behind. */
static void join_in_order(mr__window_t *w, chunk_t *c, const mr__pending_t *p) {
  for (int32_t i; (i = mr__pending_first(p)) != MR_PENDING_NONE;) {
    const unit_t *u = &w->unit[i];
    int64_t gap = u->at - end_of(c), end = u->at + u->size;
    if (u->object != c->object || u->owner != c->owner || gap < 0 || gap > GAP_MAX ||
        end - c->at > JOINED_MAX || w->held + gap + u->size > w->conf.ahead)
      return;
    join_unit(w, c, i, c->at, end);
  }
}

/* Joins a neighbour that is used some time later; false if it is too far away or missing. */
static bool join_spread(mr__window_t *w, chunk_t *c, int32_t i) {
  if (i == MR_PENDING_NONE) return false;
  const unit_t *u = &w->unit[i];
  int64_t u_end = u->at + u->size, c_end = end_of(c);
  int64_t at = u->at < c->at ? u->at : c->at, end = u_end > c_end ? u_end : c_end;
  int64_t gap = u->at > c_end ? u->at - c_end : u_end < c->at ? c->at - u_end : 0;
  int64_t wasted = c->wasted + (gap > REQUEST_BYTES ? gap - REQUEST_BYTES : 0);
  int64_t most = w->conf.ahead / (2 * w->conf.connections); /* so that all connections have some */
  if (most < SPREAD_LEAST) most = SPREAD_LEAST;
  if (most > JOINED_MAX) most = JOINED_MAX;
  if ((u->direct ? -1 : u->owner) != c->owner || gap > (w->conf.cache ? 0 : SPREAD_GAP) ||
      wasted * SPREAD_WASTE > end - at || end - at > most ||
      (w->held + end - at - c->size > w->conf.ahead && !u->pins))
    return false;
  c->wasted = wasted, c->spread = true;
  join_unit(w, c, i, at, end);
  return true;
}

/* Requests a pending unit, and with it the neighbours that are pending too.  Without memory no
   request is made: the reader that takes it asks the server. */
static void send_unit(mr__window_t *w, int32_t i) {
  unit_t *u = &w->unit[i];
  const mr__pending_t *p = pending_of(w, u);
  bool first = mr__pending_first(p) == i;
  chunk_t *c = calloc(1, sizeof *c);
  if (c) c->request = calloc(1, sizeof *c->request);
  if (!c || !c->request) {
    free(c);
    mr_belady_drop(w->order, (uint32_t)i), end_pending(w, u);
    return;
  }
  c->window = w, c->object = u->object, c->owner = u->direct ? -1 : u->owner;
  c->at = u->at, c->first = NO_UNIT;
  int64_t last = u->at;
  join_unit(w, c, i, u->at, u->at + u->size);
  if (first) join_in_order(w, c, p);
  if (w->unit[c->first].at > last) last = w->unit[c->first].at;
  for (int32_t k; join_spread(w, c, k = mr__pending_from(p, c->object, last));)
    last = w->unit[k].at;
  while (join_spread(w, c, mr__pending_before(p, c->object, c->at))) continue;
  submit_chunk(w, c);
}

/* Requests what is due first, as far as connections are free; what peers keep, at once. */
static void window_send_due(mr__window_t *w) {
  for (int32_t i; !w->closing && w->held < w->conf.ahead && w->flying < w->conf.connections;) {
    if ((i = mr__pending_first(w->pending[0])) == MR_PENDING_NONE) break;
    send_unit(w, i);
  }
  for (int32_t i; !w->closing && w->held < w->conf.ahead;) {
    if ((i = mr__pending_first(w->pending[1])) == MR_PENDING_NONE) break;
    send_unit(w, i);
  }
}

/* Notes that the unit is to be requested, with `direct` from the server in any case.  Without
   memory it is not: who takes it asks the server. */
static bool fetch_unit(mr__window_t *w, int32_t i, bool direct) {
  unit_t *u = &w->unit[i];
  if (is_pending(u) && u->direct == direct) return true;
  end_pending(w, u);
  u->direct = direct;
  u->pending = mr__pending_add(pending_of(w, u), i, u->object, u->at, u->size);
  return is_pending(u);
}

/* ---- issuing ---- */

static void lose_unit(mr__window_t *w, uint32_t lost) {
  if (lost == MR_BELADY_NONE) return;
  place_unit(w, &w->unit[lost], true, w->unit[lost].on_disk);
  settle_unit(w, (int32_t)lost);
}

static bool note_issued(mr__window_t *w, int32_t i) {
  if ((size_t)(w->head - w->tail) == w->issued_cap) {
    size_t cap = 2 * w->issued_cap;
    int32_t *more = malloc(cap * sizeof *more);
    if (!more) return false;
    for (int64_t k = w->tail; k < w->head; k++)
      more[(size_t)k & (cap - 1)] = w->issued[(size_t)k & (w->issued_cap - 1)];
    free(w->issued);
    w->issued = more, w->issued_cap = cap;
  }
  w->unit[i].number = w->head;
  w->issued[(size_t)w->head++ & (w->issued_cap - 1)] = i;
  return true;
}

/* Whether another run has a unit in the folder, or a peer, or this run has forgotten it there while
   others used the folder. */
static bool find_on_disk(const mr__window_t *w, const unit_t *u) {
  return w->conf.cache && !u->chunk && !u->on_disk && mr__cache_takes(u->object) &&
         mr__cache_has(w->conf.cache, u->object, u->at);
}

/* Issues the next use; without `fetch`, its bytes are not needed. */
static bool issue_use(mr__window_t *w, bool fetch) {
  mr_belady_use_t use;
  if (!mr_belady_take(w->order, &use)) return false;
  int32_t i = (int32_t)use.unit;
  unit_t *u = &w->unit[i];
  bool found = !use.hit && find_on_disk(w, u);
  w->counts.uses++, w->counts.hits += use.hit || found;
  if (use.kept) place_unit(w, u, false, u->on_disk);
  if (found) place_unit(w, u, !use.kept && u->owner < 0, true); /* a peer's stays */
  u->waiting += note_issued(w, i);
  if (!u->chunk && !is_pending(u) && !u->on_disk && fetch) fetch_unit(w, i, false);
  if (!u->chunk && !is_pending(u) && !u->on_disk && use.kept) mr_belady_drop(w->order, use.unit);
  /* A block in memory, fetched for a use before this one, that is to be kept from now on. */
  if (u->chunk && u->chunk->done && use.kept && !u->on_disk && !u->writes && code_of(u->chunk) >= 0)
    queue_write(w, i);
  lose_unit(w, use.lost);
  settle_unit(w, i);
  return true;
}

static bool issue_next(mr__window_t *w) { return issue_use(w, true); }

/* Bytes in memory and on the way there. */
static int64_t all_held(const mr__window_t *w) {
  return w->held + mr__pending_bytes(w->pending[0]) + mr__pending_bytes(w->pending[1]);
}

/* Begins what is due soon.  Memory is filled in large steps, so that neighbours can join. */
static void issue_ahead(mr__window_t *w) {
  if (all_held(w) <= w->conf.ahead - w->conf.ahead / 8)
    while (all_held(w) < w->conf.ahead && w->head - w->newest < SLACK && issue_next(w)) continue;
  window_send_due(w);
}

/* Uses at the end of the list that were taken, or never will be. */
static void give_up_old(mr__window_t *w) {
  while (w->tail < w->head) {
    int32_t i = w->issued[(size_t)w->tail & (w->issued_cap - 1)];
    unit_t *u = &w->unit[i];
    if (u->taken)
      u->taken--;
    else if (w->tail < w->newest - SLACK)
      u->waiting--;
    else
      return;
    w->tail++;
    settle_unit(w, i);
  }
}

/* ---- the cache ---- */

static void write_unit(mr__window_t *w, int32_t i) {
  unit_t *u = &w->unit[i];
  const mr_object_t *o = u->object;
  chunk_t *c = u->chunk;
  int64_t at = u->at, size = u->size;
  mr_diag_t why = {0};
  mr_err_t e = MR_END;
  bool own = false;
  if (!u->goes) {
    int64_t going = w->going;
    pthread_mutex_unlock(&w->lock);
    e = mr__cache_write(w->conf.cache, o, at, c->data + (at - c->at), size, going, &own, &why);
    pthread_mutex_lock(&w->lock);
    u = &w->unit[i];
  }
  u->writes = false, w->writing -= size;
  place_unit(w, u, u->goes, e == MR_OK), u->verified = own;
  if (e != MR_OK) mr_belady_drop(w->order, (uint32_t)i);
  if (e < 0 && !w->said_full) {
    w->said_full = true;
    mr_notice("%s: blocks fetched from now on are not kept in the cache", why.text);
  }
  settle_unit(w, i);
}

static void *keeper_run(void *arg) {
  mr__window_t *w = arg;
  pthread_mutex_lock(&w->lock);
  for (;;) {
    while (w->write_tail == w->write_head && !w->ends) pthread_cond_wait(&w->work, &w->lock);
    if (w->write_tail == w->write_head) break; /* what is to be kept is written first */
    write_unit(w, w->to_write[(size_t)w->write_tail++ & (w->write_cap - 1)]);
  }
  pthread_mutex_unlock(&w->lock);
  return NULL;
}

void mr__window_take_cached(mr__window_t *w, const mr__cached_t *block, size_t n) {
  pthread_mutex_lock(&w->lock);
  for (size_t k = 0; k < n; k++) {
    const mr_object_t *o = block[k].object;
    int64_t at = block[k].at, left = o->size - at;
    int32_t i = add_unit(w, o, at, left < w->conf.block ? left : w->conf.block);
    if (i == NO_UNIT) break;
    if (mr_belady_hold(w->order, (uint32_t)i))
      w->unit[i].on_disk = true;
    else
      mr__cache_evict(w->conf.cache, o, at);
  }
  pthread_mutex_unlock(&w->lock);
}

/* ---- life ---- */

mr__window_t *mr__window_create(const mr__window_conf_t *conf) {
  mr__window_t *w = calloc(1, sizeof *w);
  if (!w) return NULL;
  w->conf = *conf;
  w->cap = 1024, w->issued_cap = 4096, w->write_cap = 1 << 16, w->free_units = NO_UNIT;
  w->order = mr_belady_new(conf->cache ? conf->capacity : 0);
  w->unit = malloc((size_t)w->cap * sizeof *w->unit);
  w->issued = malloc(w->issued_cap * sizeof *w->issued);
  w->to_write = malloc(w->write_cap * sizeof *w->to_write);
  pthread_mutex_init(&w->lock, NULL);
  pthread_cond_init(&w->arrived, NULL), pthread_cond_init(&w->work, NULL);
  for (int i = 0; i < 2; i++) w->pending[i] = mr__pending_create();
  bool good = w->order && w->unit && w->issued && w->to_write && w->pending[0] && w->pending[1] &&
              rehash(w, 2048);
  w->keeps = good && conf->cache && pthread_create(&w->keeper, NULL, keeper_run, w) == 0;
  if (good) return w;
  mr__window_destroy(w);
  return NULL;
}

/* Evicts what is to go, though uses of it were announced that have not been taken. */
static void evict_rest(mr__window_t *w) {
  for (int32_t i = 0; i < w->n_units && w->going; i++)
    if (w->unit[i].goes && w->unit[i].on_disk) evict_unit(w, &w->unit[i]);
}

void mr__window_destroy(mr__window_t *w) {
  if (!w) return;
  pthread_mutex_lock(&w->lock);
  evict_rest(w); /* what is still to be written has their room */
  w->ends = true;
  pthread_cond_signal(&w->work);
  pthread_mutex_unlock(&w->lock);
  if (w->keeps) pthread_join(w->keeper, NULL);
  evict_rest(w);
  for (int32_t i = 0; i < w->n_units; i++)
    if (w->unit[i].object) drop_chunk(w, w->unit[i].chunk);
  for (int i = 0; i < 2; i++) mr__pending_destroy(w->pending[i]);
  mr_belady_free(w->order);
  pthread_cond_destroy(&w->arrived), pthread_cond_destroy(&w->work);
  pthread_mutex_destroy(&w->lock);
  free(w->unit), free(w->bucket), free(w->issued), free(w->to_write), free(w);
}

void mr__window_count(mr__window_t *w, mr__window_counts_t *out) {
  pthread_mutex_lock(&w->lock);
  *out = w->counts;
  pthread_mutex_unlock(&w->lock);
}

/* ---- the future ---- */

/* The unit that holds byte `from` of a part, and where it lies. */
static int64_t unit_at(const mr__window_t *w, const mr_remote_want_t *want, int64_t from,
                       int64_t *size) {
  if (!w->conf.cache || !mr__cache_takes(want->object)) return *size = want->size, want->at;
  int64_t at = from / w->conf.block * w->conf.block, left = want->object->size - at;
  *size = left < w->conf.block ? left : w->conf.block;
  return at;
}

static bool tell_part(mr__window_t *w, const mr_remote_want_t *want) {
  for (int64_t from = want->at, end = want->at + want->size; from < end;) {
    int64_t size, at = unit_at(w, want, from, &size);
    int32_t i = find_unit(w, want->object, at, size);
    if (i == NO_UNIT) i = add_unit(w, want->object, at, size);
    if (i == NO_UNIT || !mr_belady_tell(w->order, (uint32_t)i)) return false;
    from = at + size;
  }
  return true;
}

int64_t mr__window_tell(mr__window_t *w, const mr_remote_want_t *want, int n) {
  pthread_mutex_lock(&w->lock);
  for (int i = 0; i < n && !w->starved; i++) w->starved = !tell_part(w, &want[i]);
  int64_t most = w->conf.cache ? KNOWN_MAX : KNOWN_LEAST;
  int64_t more = w->starved ? 0 : most - mr_belady_known(w->order);
  pthread_mutex_unlock(&w->lock);
  return more > 0 ? more : 0;
}

void mr__window_begin(mr__window_t *w) {
  pthread_mutex_lock(&w->lock);
  issue_ahead(w);
  pthread_mutex_unlock(&w->lock);
}

/* ---- taking ---- */

/* Issues until a use of the unit is due; false if none is known, or too far away.  Without `fetch`,
   the unit's bytes are not needed. */
static bool make_due(mr__window_t *w, int32_t i, bool fetch) {
  if (w->unit[i].waiting > 0) return true;
  int64_t far = mr_belady_distance(w->order, (uint32_t)i);
  if (far < 0 || far > SLACK) return false;
  while (far-- > 0 && issue_next(w)) continue;
  issue_use(w, fetch);
  window_send_due(w);
  return w->unit[i].waiting > 0;
}

/* Copies from a unit's chunk or its file; the unit is pinned.  MR_END: lost. */
static mr_err_t copy_unit(mr__window_t *w, int32_t i, const mr_remote_want_t *want, int64_t from,
                          int64_t n, mr_diag_t *diag) {
  unit_t *u = &w->unit[i];
  uint8_t *to = (uint8_t *)want->to + (from - want->at);
  chunk_t *c;
  while ((c = w->unit[i].chunk) && !c->done) pthread_cond_wait(&w->arrived, &w->lock);
  u = &w->unit[i];
  if (c && code_of(c) < 0) return mr_diag_relay(diag, code_of(c), &c->request->diag);
  if (c) {
    pthread_mutex_unlock(&w->lock);
    memcpy(to, c->data + (from - c->at), (size_t)n);
    pthread_mutex_lock(&w->lock);
    return MR_OK;
  }
  if (!u->on_disk) return MR_END;
  const mr_object_t *o = u->object;
  int64_t at = u->at;
  bool verified = u->verified;
  pthread_mutex_unlock(&w->lock);
  bool good = mr__cache_read(w->conf.cache, o, at, from - at, n, to, &verified);
  pthread_mutex_lock(&w->lock);
  u = &w->unit[i];
  u->verified = verified;
  if (good) return MR_OK;
  place_unit(w, u, u->goes, false); /* it will be fetched when it is due again */
  u->verified = false;
  mr_belady_drop(w->order, (uint32_t)i);
  w->counts.lost++;
  return MR_END;
}

/* Ends a use of the unit; false if none is due. */
static bool end_use(mr__window_t *w, int32_t i, bool fetch) {
  if (!make_due(w, i, fetch)) return false;
  unit_t *u = &w->unit[i];
  if (u->waiting == 1 && u->number > w->newest) w->newest = u->number;
  u->waiting--, u->taken++;
  return true;
}

static mr_err_t take_unit(mr__window_t *w, int32_t i, const mr_remote_want_t *want, int64_t from,
                          int64_t n, mr_diag_t *diag) {
  bool due = end_use(w, i, want->to != NULL);
  unit_t *u = &w->unit[i];
  if (!want->to) return settle_unit(w, i), MR_OK;
  if (!due && !u->on_disk && !u->chunk && !is_pending(u)) return MR_END;
  u->pins++;
  if (is_pending(u)) send_unit(w, i);
  mr_err_t e = copy_unit(w, i, want, from, n, diag);
  w->unit[i].pins--;
  settle_unit(w, i);
  return e;
}

mr_err_t mr__window_take(mr__window_t *w, const mr_remote_want_t *want, mr_diag_t *diag) {
  mr_err_t e = MR_OK;
  pthread_mutex_lock(&w->lock);
  for (int64_t from = want->at, end = want->at + want->size; from < end && e == MR_OK;) {
    int64_t size, at = unit_at(w, want, from, &size), stop = at + size < end ? at + size : end;
    int32_t i = find_unit(w, want->object, at, size);
    e = i != NO_UNIT ? take_unit(w, i, want, from, stop - from, diag) : want->to ? MR_END : MR_OK;
    from = stop;
  }
  give_up_old(w);
  issue_ahead(w);
  pthread_mutex_unlock(&w->lock);
  return e;
}

/* ---- peers ---- */

/* Begins to fetch what a peer asks for and is not here.  False without memory. */
static bool begin_serving(mr__window_t *w, int32_t i) {
  unit_t *u = &w->unit[i];
  if (u->chunk || u->on_disk) return true;
  if (!mr_belady_holds(w->order, (uint32_t)i)) mr_belady_hold(w->order, (uint32_t)i);
  if (mr_belady_holds(w->order, (uint32_t)i))
    place_unit(w, u, false, mr__cache_has(w->conf.cache, u->object, u->at));
  return u->on_disk || fetch_unit(w, i, true);
}

/* The part of [at,at+n) that lies in the block of byte `from`. */
static mr_err_t serve_unit(mr__window_t *w, const mr_remote_want_t *want, int64_t from, int64_t n,
                           int32_t i) {
  mr_err_t e = MR_END;
  for (int tries = 0; tries < 2 && e == MR_END; tries++) { /* the file of a block may be lost */
    if (w->closing) return MR_ERR_CANCEL;
    if (!begin_serving(w, i)) return MR_ERR_NOMEM;
    if (is_pending(&w->unit[i])) send_unit(w, i);
    e = copy_unit(w, i, want, from, n, NULL);
  }
  return e;
}

mr_err_t mr__window_serve(void *arg, const mr_object_t *o, int64_t at, int64_t n, uint8_t *to) {
  mr__window_t *w = arg;
  mr_remote_want_t want = {o, at, n, to};
  int64_t block = w->conf.block, first = at / block * block, end = at + n;
  int32_t *unit = malloc((size_t)((end - first) / block + 1) * sizeof *unit), k = 0;
  mr_err_t e = unit && mr__cache_takes(o) ? MR_OK : MR_ERR_NOMEM;
  pthread_mutex_lock(&w->lock);
  if (w->closing) e = MR_ERR_CANCEL;
  for (int64_t from = first; from < end && e >= 0; from += block) { /* all are asked for at once */
    int64_t size = o->size - from < block ? o->size - from : block;
    int32_t i = find_unit(w, o, from, size);
    if (i == NO_UNIT) i = add_unit(w, o, from, size);
    if (i == NO_UNIT || !begin_serving(w, i)) {
      e = MR_ERR_NOMEM;
      break;
    }
    w->unit[i].pins++, unit[k++] = i;
  }
  for (int32_t p = 0; p < k; p++)
    if (is_pending(&w->unit[unit[p]])) send_unit(w, unit[p]);
  for (int32_t p = 0; p < k; p++) {
    int64_t from = first + p * block, stop = from + block < end ? from + block : end;
    if (from < at) from = at;
    if (e >= 0) e = serve_unit(w, &want, from, stop - from, unit[p]);
    w->unit[unit[p]].pins--;
    settle_unit(w, unit[p]);
  }
  pthread_mutex_unlock(&w->lock);
  free(unit);
  return e;
}

void mr__window_end_serving(mr__window_t *w) {
  pthread_mutex_lock(&w->lock);
  w->closing = true;
  pthread_mutex_unlock(&w->lock);
}
