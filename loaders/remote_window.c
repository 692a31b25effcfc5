/* Uses are issued in order: each is counted against the cache by Belady's rule, and what must be
   fetched becomes part of a chunk, one request.  A thread writes what is to be kept to the cache.

   A unit's bytes stay in memory while uses of it are issued and not taken, a thread copies them, or
   they wait to be written.  Uses that are never taken (records that are replaced or left out) are
   given up when much later ones are taken. */
#include "loaders/remote_window.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "loaders/belady.h"

enum {
  GAP_MAX = 8 << 10,    /* bytes between neighbours: what a request costs otherwise */
  JOINED_MAX = 8 << 20, /* bytes of one request */
  KNOWN_MAX = 1 << 22,  /* uses known with a cache */
  KNOWN_LEAST = 4096,   /* uses known without one: fetched when the memory allows */
  SLACK = 1 << 15,      /* uses by which threads may be apart */
  NO_UNIT = -1,
};

/* One request, for one unit or neighbours. */
typedef struct chunk {
  mr__request_t request;
  mr__window_t *window;
  uint8_t *data;
  int refs;      /* units that hold it */
  int32_t first; /* of its units, in use until it is done */
  bool done;
} chunk_t;

typedef struct unit {
  const mr_object_t *object; /* NULL: free */
  int64_t at, size;
  chunk_t *chunk;  /* NULL: not in memory */
  int32_t waiting; /* uses issued and not taken */
  int32_t taken;   /* uses taken that still lie in the list of issued ones */
  int32_t pins;    /* threads that copy it */
  int64_t number;  /* of the last use issued */
  int32_t sibling; /* the next unit of its chunk */
  int32_t next;    /* in its bucket, or in the list of free ones */
  bool on_disk, verified;
  bool writes, goes; /* waits to be written; is to be removed when idle */
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
  chunk_t *open;              /* a request that grows while neighbours follow */
  mr__window_counts_t counts;
  bool starved; /* memory for the future ran out: nothing more is announced */
  /* Writing. */
  int32_t *to_write; /* ring, [write_cap] */
  size_t write_cap;
  int64_t write_tail, write_head;
  pthread_cond_t work;
  pthread_t keeper;
  bool keeps, ends, said_full;
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
  w->unit[i] = (unit_t){.object = o, .at = at, .size = size, .next = w->bucket[h]};
  w->bucket[h] = i;
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
  w->held -= c->request.size;
  free(c->data), free(c);
}

/* Gives back the bytes of a unit that needs them no more. */
static void settle_unit(mr__window_t *w, int32_t i) {
  unit_t *u = &w->unit[i];
  if (u->waiting || u->pins || u->writes) return;
  chunk_t *c = u->chunk;
  if (c && !c->done) return; /* on_arrival settles it */
  u->chunk = NULL;
  drop_chunk(w, c);
  if (u->goes && u->on_disk) mr__cache_remove(w->conf.cache, u->object, u->at);
  if (u->goes) u->goes = u->on_disk = u->verified = false;
  forget_unit(w, i);
}

static void queue_write(mr__window_t *w, int32_t i) {
  if (!w->keeps || !mr__cache_takes(w->unit[i].object) ||
      (size_t)(w->write_head - w->write_tail) == w->write_cap) {
    mr_belady_drop(w->order, (uint32_t)i);
    return;
  }
  w->unit[i].writes = true;
  w->to_write[(size_t)w->write_head++ & (w->write_cap - 1)] = i;
  pthread_cond_signal(&w->work);
}

static void settle_chunk(mr__window_t *w, chunk_t *c) {
  c->refs++; /* it stays while its units are settled */
  for (int32_t i = c->first, next; i != NO_UNIT; i = next) {
    unit_t *u = &w->unit[i];
    next = u->sibling;
    if (c->request.code < 0) mr_belady_drop(w->order, (uint32_t)i);
    if (mr_belady_holds(w->order, (uint32_t)i) && !u->on_disk && !u->writes) queue_write(w, i);
    settle_unit(w, i);
  }
  drop_chunk(w, c);
}

static void on_arrival(mr__request_t *q, void *arg) {
  chunk_t *c = arg;
  mr__window_t *w = c->window;
  pthread_mutex_lock(&w->lock);
  c->done = true;
  settle_chunk(w, c);
  pthread_cond_broadcast(&w->arrived);
  pthread_mutex_unlock(&w->lock);
}

/* Sends the request that has been growing. */
static void send_open(mr__window_t *w) {
  chunk_t *c = w->open;
  w->open = NULL;
  if (!c) return;
  c->data = malloc((size_t)c->request.size);
  c->request.to = c->data;
  c->request.done = on_arrival, c->request.arg = c;
  if (c->data) {
    mr__engine_submit(w->conf.engine, &c->request);
    return;
  }
  c->request.code =
      mr_no_memory(&c->request.diag, "%lld bytes of records", (long long)c->request.size);
  c->done = true;
  settle_chunk(w, c);
  pthread_cond_broadcast(&w->arrived);
}

/* Whether the unit lies so close behind the open request that a few bytes between are fetched too.
 */
static bool continues_open(const mr__window_t *w, const unit_t *u) {
  const chunk_t *c = w->open;
  int64_t end = c ? c->request.at + c->request.size : 0;
  return c && c->request.object == u->object && u->at >= end && u->at - end <= GAP_MAX &&
         u->at + u->size - c->request.at <= JOINED_MAX;
}

/* Makes the unit part of a request.  False without memory: who takes it asks the server. */
static bool fetch_unit(mr__window_t *w, int32_t i) {
  unit_t *u = &w->unit[i];
  if (!continues_open(w, u)) {
    send_open(w);
    chunk_t *c = calloc(1, sizeof *c);
    if (!c) return false;
    c->window = w, c->request.object = u->object, c->request.at = u->at, c->first = NO_UNIT;
    w->open = c;
  }
  chunk_t *c = w->open;
  int64_t size = u->at + u->size - c->request.at;
  w->held += size - c->request.size;
  c->request.size = size, c->refs++;
  u->chunk = c, u->sibling = c->first, c->first = i;
  return true;
}

/* ---- issuing ---- */

static void lose_unit(mr__window_t *w, uint32_t lost) {
  if (lost == MR_BELADY_NONE) return;
  w->unit[lost].goes = true;
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

static bool issue_next(mr__window_t *w) {
  mr_belady_use_t use;
  if (!mr_belady_take(w->order, &use)) return false;
  int32_t i = (int32_t)use.unit;
  unit_t *u = &w->unit[i];
  w->counts.uses++, w->counts.hits += use.hit;
  if (use.kept) u->goes = false;
  if (use.kept && !use.hit && !u->chunk && !u->on_disk && mr__cache_takes(u->object))
    u->on_disk = mr__cache_has(w->conf.cache, u->object, u->at); /* from another run */
  u->waiting += note_issued(w, i);
  if (!u->chunk && !u->on_disk) fetch_unit(w, i);
  /* A block in memory, fetched for a use before this one, that is to be kept from now on. */
  if (u->chunk && u->chunk->done && use.kept && !u->on_disk && !u->writes &&
      u->chunk->request.code >= 0)
    queue_write(w, i);
  lose_unit(w, use.lost);
  settle_unit(w, i);
  return true;
}

/* Begins what is due soon.  Memory is filled in large steps, so that neighbours can join. */
static void issue_ahead(mr__window_t *w) {
  if (w->held > w->conf.ahead - w->conf.ahead / 8) return;
  while (w->held < w->conf.ahead && w->head - w->newest < SLACK && issue_next(w)) continue;
  send_open(w);
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
  if (!u->goes) {
    pthread_mutex_unlock(&w->lock);
    e = mr__cache_write(w->conf.cache, o, at, c->data + (at - c->request.at), size, &why);
    pthread_mutex_lock(&w->lock);
    u = &w->unit[i];
  }
  u->writes = false;
  u->on_disk = u->verified = e == MR_OK;
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

void mr__window_find_cached(mr__window_t *w, const mr_object_t *o) {
  if (!w->conf.cache || !mr__cache_takes(o)) return;
  pthread_mutex_lock(&w->lock);
  for (int64_t at = 0; at < o->size; at += w->conf.block) {
    int64_t size = o->size - at < w->conf.block ? o->size - at : w->conf.block;
    if (!mr__cache_has(w->conf.cache, o, at)) continue;
    int32_t i = add_unit(w, o, at, size);
    if (i == NO_UNIT) break;
    if (mr_belady_hold(w->order, (uint32_t)i))
      w->unit[i].on_disk = true;
    else
      mr__cache_remove(w->conf.cache, o, at);
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
  bool good = w->order && w->unit && w->issued && w->to_write && rehash(w, 2048);
  w->keeps = good && conf->cache && pthread_create(&w->keeper, NULL, keeper_run, w) == 0;
  if (good) return w;
  mr__window_destroy(w);
  return NULL;
}

void mr__window_destroy(mr__window_t *w) {
  if (!w) return;
  pthread_mutex_lock(&w->lock);
  w->ends = true;
  pthread_cond_signal(&w->work);
  pthread_mutex_unlock(&w->lock);
  if (w->keeps) pthread_join(w->keeper, NULL);
  for (int32_t i = 0; i < w->n_units; i++)
    if (w->unit[i].object) drop_chunk(w, w->unit[i].chunk);
  mr_belady_free(w->order);
  pthread_cond_destroy(&w->arrived), pthread_cond_destroy(&w->work);
  pthread_mutex_destroy(&w->lock);
  free(w->unit), free(w->bucket), free(w->issued), free(w->to_write), free(w);
}

void mr__window_count(mr__window_t *w, mr__window_counts_t *out) {
  pthread_mutex_lock(&w->lock);
  *out = w->counts;
  out->capacity = w->conf.cache ? w->conf.capacity : 0;
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

/* Issues until a use of the unit is due; false if none is known, or too far away. */
static bool make_due(mr__window_t *w, int32_t i) {
  if (w->unit[i].waiting > 0) return true;
  int64_t far = mr_belady_distance(w->order, (uint32_t)i);
  if (far < 0 || far > SLACK) return false;
  while (far-- >= 0 && issue_next(w)) continue;
  send_open(w);
  return w->unit[i].waiting > 0;
}

/* Copies from a unit's chunk or its file; the unit is pinned.  MR_END: lost. */
static mr_err_t copy_unit(mr__window_t *w, int32_t i, const mr_remote_want_t *want, int64_t from,
                          int64_t n, mr_diag_t *diag) {
  unit_t *u = &w->unit[i];
  uint8_t *to = (uint8_t *)want->to + (from - want->at);
  chunk_t *c = u->chunk;
  while (c && !c->done) pthread_cond_wait(&w->arrived, &w->lock);
  u = &w->unit[i];
  if (c && c->request.code < 0) return mr_diag_relay(diag, c->request.code, &c->request.diag);
  if (c) {
    pthread_mutex_unlock(&w->lock);
    memcpy(to, c->data + (from - c->request.at), (size_t)n);
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
  u->on_disk = u->verified = false; /* it will be fetched when it is due again */
  mr_belady_drop(w->order, (uint32_t)i);
  w->counts.lost++;
  return MR_END;
}

static mr_err_t take_unit(mr__window_t *w, int32_t i, const mr_remote_want_t *want, int64_t from,
                          int64_t n, mr_diag_t *diag) {
  unit_t *u = &w->unit[i];
  bool due = make_due(w, i);
  u = &w->unit[i];
  if (!due && !u->on_disk && !u->chunk) return MR_END;
  if (due) {
    if (u->waiting == 1 && u->number > w->newest) w->newest = u->number;
    u->waiting--, u->taken++;
  }
  u->pins++;
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
    e = i == NO_UNIT ? MR_END : take_unit(w, i, want, from, stop - from, diag);
    from = stop;
  }
  give_up_old(w);
  issue_ahead(w);
  pthread_mutex_unlock(&w->lock);
  return e;
}
