/* The table of units, and when one gives its bytes back: as soon as no use, thread or writer needs
   them. */
#include <stdlib.h>
#include <string.h>

#include "loaders/remote/remote_window_private.h"

static uint32_t hash_of(const mr__window_t *w, const mr_object_t *o, int64_t at) {
  uint64_t h = ((uint64_t)(uintptr_t)o ^ (uint64_t)at * UINT64_C(0x9E3779B97F4A7C15));
  h ^= h >> 29, h *= UINT64_C(0xBF58476D1CE4E5B9);
  return (uint32_t)(h >> 32) & (w->n_buckets - 1);
}

bool mr__units_rehash(mr__window_t *w, uint32_t n) {
  int32_t *bucket = malloc(n * sizeof *bucket);
  if (!bucket) return false;
  memset(bucket, 0xFF, n * sizeof *bucket);
  free(w->bucket);
  w->bucket = bucket, w->n_buckets = n;
  for (int32_t i = 0; i < w->n_units; i++) {
    mr__unit_t *u = &w->unit[i];
    if (!u->object) continue;
    uint32_t h = hash_of(w, u->object, u->at);
    u->next = bucket[h], bucket[h] = i;
  }
  return true;
}

int32_t mr__unit_find(const mr__window_t *w, const mr_object_t *o, int64_t at, int64_t size) {
  int32_t i = w->bucket[hash_of(w, o, at)];
  while (i != MR_NO_UNIT &&
         (w->unit[i].object != o || w->unit[i].at != at || w->unit[i].size != size))
    i = w->unit[i].next;
  return i;
}

int32_t mr__unit_add(mr__window_t *w, const mr_object_t *o, int64_t at, int64_t size) {
  int32_t i = w->free_units;
  if (i == MR_NO_UNIT && w->n_units == w->cap) {
    if (w->cap > INT32_MAX / 2) return MR_NO_UNIT;
    mr__unit_t *more = realloc(w->unit, 2 * (size_t)w->cap * sizeof *more);
    if (!more) return MR_NO_UNIT;
    w->unit = more, w->cap *= 2;
    if (!mr__units_rehash(w, 2 * w->n_buckets)) return MR_NO_UNIT;
  }
  if (i == MR_NO_UNIT)
    i = w->n_units++;
  else
    w->free_units = w->unit[i].next;
  uint32_t h = hash_of(w, o, at);
  w->unit[i] = (mr__unit_t){.object = o,
                            .at = at,
                            .size = size,
                            .next = w->bucket[h],
                            .owner = -1,
                            .pending = MR_PENDING_NONE};
  w->bucket[h] = i;
  if (w->conf.peers && mr__cache_takes(o))
    w->unit[i].owner = mr__peers_owner(w->conf.peers, o, at / w->conf.block / MR_PEER_GROUP);
  mr_belady_bar(w->order, (uint32_t)i, w->unit[i].owner >= 0); /* its owner keeps it */
  return i;
}

/* A unit is forgotten when nothing is known of it: memory holds the known future and what this run
   keeps, whatever the size of the data. */
static void forget_unit(mr__window_t *w, int32_t i) {
  mr__unit_t *u = &w->unit[i];
  if (u->waiting || u->taken || u->pins || mr_belady_distance(w->order, (uint32_t)i) >= 0) return;
  if (mr_belady_holds(w->order, (uint32_t)i) || u->goes || (u->on_disk && u->owner < 0)) return;
  int32_t *at = &w->bucket[hash_of(w, u->object, u->at)];
  while (*at != i) at = &w->unit[*at].next;
  *at = u->next;
  u->object = NULL, u->next = w->free_units, w->free_units = i;
}

void mr__chunk_drop(mr__window_t *w, mr__chunk_t *c) {
  if (!c || --c->refs) return;
  w->held -= c->size;
  free(c->data), free(c->request), free(c);
}

/* Whether a unit is to be evicted, and has a file. */
void mr__unit_place(mr__window_t *w, mr__unit_t *u, bool goes, bool on_disk) {
  if (u->goes && u->on_disk) w->going -= u->size;
  u->goes = goes, u->on_disk = on_disk;
  if (u->goes && u->on_disk) w->going += u->size;
}

void mr__unit_evict(mr__window_t *w, mr__unit_t *u) {
  if (u->on_disk) mr__cache_evict(w->conf.cache, u->object, u->at);
  mr__unit_place(w, u, false, false);
  u->stamp = 0;
}

mr__pending_t *mr__unit_pending(const mr__window_t *w, const mr__unit_t *u) {
  return w->pending[u->owner >= 0 && !u->direct];
}

void mr__unit_end_pending(mr__window_t *w, mr__unit_t *u) {
  if (mr__unit_is_pending(u)) mr__pending_remove(mr__unit_pending(w, u), u->pending);
  u->pending = MR_PENDING_NONE;
}

/* Gives back the bytes of a unit that needs them no more. */
void mr__unit_settle(mr__window_t *w, int32_t i) {
  mr__unit_t *u = &w->unit[i];
  if (u->waiting || u->pins || u->writes) return;
  mr__chunk_t *c = u->chunk;
  if (c && !c->done) return; /* on_arrival settles it */
  if (mr__unit_is_pending(u)) mr_belady_drop(w->order, (uint32_t)i), mr__unit_end_pending(w, u);
  u->chunk = NULL;
  mr__chunk_drop(w, c);
  if (u->goes) mr__unit_evict(w, u);
  forget_unit(w, i);
}
