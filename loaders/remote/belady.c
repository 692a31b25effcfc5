/* The known uses lie in a ring, each with the distance to the next use of its unit.  The cached
   units form a heap with the furthest next use on top. */
#include "loaders/remote/belady.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { NOT_CACHED = -1 };
#define NEVER INT64_MAX

typedef struct known_use {
  uint32_t unit, next; /* next: distance to the next use of the unit, 0: none is known */
} known_use_t;

typedef struct seen_unit {
  int64_t next, last; /* numbers of its next and last known use; next NEVER: none */
  int32_t heap;       /* place in the heap, or NOT_CACHED */
  bool barred;        /* it never gets into the heap */
} seen_unit_t;

struct mr_belady {
  known_use_t *ring; /* [cap] use i is ring[i % cap] */
  size_t cap;        /* a power of two */
  int64_t taken, reported;
  seen_unit_t *unit; /* [n_units] */
  size_t n_units;
  uint32_t *heap; /* [n_heap] units, [capacity] */
  uint32_t n_heap, capacity;
};

mr_belady_t *mr_belady_new(uint32_t capacity) {
  mr_belady_t *b = calloc(1, sizeof *b);
  if (!b) return NULL;
  b->cap = 1024, b->capacity = capacity;
  b->ring = malloc(b->cap * sizeof *b->ring);
  b->heap = malloc(((size_t)capacity + 1) * sizeof *b->heap);
  if (b->ring && b->heap) return b;
  mr_belady_free(b);
  return NULL;
}

void mr_belady_free(mr_belady_t *b) {
  if (!b) return;
  free(b->ring), free(b->unit), free(b->heap), free(b);
}

static known_use_t *use_at(const mr_belady_t *b, int64_t number) {
  return &b->ring[(size_t)number & (b->cap - 1)];
}

/* ---- the heap ---- */

static int64_t next_of(const mr_belady_t *b, uint32_t i) { return b->unit[b->heap[i]].next; }

static void heap_put(mr_belady_t *b, uint32_t i, uint32_t unit) {
  b->heap[i] = unit;
  b->unit[unit].heap = (int32_t)i;
}

static void heap_swap(mr_belady_t *b, uint32_t i, uint32_t k) {
  uint32_t unit = b->heap[i];
  heap_put(b, i, b->heap[k]);
  heap_put(b, k, unit);
}

/* Restores the heap after the next use of the unit at place i has changed. */
static void heap_mend(mr_belady_t *b, uint32_t i) {
  while (i && next_of(b, (i - 1) / 2) < next_of(b, i)) {
    heap_swap(b, i, (i - 1) / 2);
    i = (i - 1) / 2;
  }
  for (;;) {
    uint32_t most = i, left = 2 * i + 1;
    if (left < b->n_heap && next_of(b, left) > next_of(b, most)) most = left;
    if (left + 1 < b->n_heap && next_of(b, left + 1) > next_of(b, most)) most = left + 1;
    if (most == i) return;
    heap_swap(b, i, most);
    i = most;
  }
}

static void heap_insert(mr_belady_t *b, uint32_t unit) {
  assert(b->n_heap < b->capacity);
  heap_put(b, b->n_heap++, unit);
  heap_mend(b, b->n_heap - 1);
}

static void heap_remove(mr_belady_t *b, uint32_t i) {
  b->unit[b->heap[i]].heap = NOT_CACHED;
  if (i == --b->n_heap) return;
  heap_put(b, i, b->heap[b->n_heap]);
  heap_mend(b, i);
}

/* ---- uses ---- */

static bool know_unit(mr_belady_t *b, uint32_t unit) {
  if (unit < b->n_units) return true;
  size_t n = b->n_units ? b->n_units : 256;
  while (n <= unit) n *= 2;
  seen_unit_t *more = realloc(b->unit, n * sizeof *more);
  if (!more) return false;
  b->unit = more;
  for (; b->n_units < n; b->n_units++)
    more[b->n_units] = (seen_unit_t){.next = NEVER, .last = -1, .heap = NOT_CACHED};
  return true;
}

static bool grow_ring(mr_belady_t *b) {
  known_use_t *more = malloc(2 * b->cap * sizeof *more);
  if (!more) return false;
  for (int64_t i = b->taken; i < b->reported; i++)
    more[(size_t)i & (2 * b->cap - 1)] = *use_at(b, i);
  free(b->ring);
  b->ring = more, b->cap *= 2;
  return true;
}

bool mr_belady_tell(mr_belady_t *b, uint32_t unit) {
  if (!know_unit(b, unit)) return false;
  if ((size_t)(b->reported - b->taken) == b->cap && !grow_ring(b)) return false;
  seen_unit_t *u = &b->unit[unit];
  int64_t now = b->reported++;
  *use_at(b, now) = (known_use_t){.unit = unit};
  if (u->next != NEVER) {
    use_at(b, u->last)->next = (uint32_t)(now - u->last);
  } else {
    u->next = now;
    if (u->heap >= 0) heap_mend(b, (uint32_t)u->heap);
  }
  u->last = now;
  return true;
}

int64_t mr_belady_known(const mr_belady_t *b) { return b->reported - b->taken; }

bool mr_belady_take(mr_belady_t *b, mr_belady_use_t *out) {
  if (b->taken == b->reported) return false;
  int64_t now = b->taken++;
  const known_use_t *k = use_at(b, now);
  seen_unit_t *u = &b->unit[k->unit];
  assert(u->next == now);
  u->next = k->next ? now + k->next : NEVER;
  *out = (mr_belady_use_t){.unit = k->unit, .hit = u->heap >= 0, .lost = MR_BELADY_NONE};
  if (out->hit) {
    heap_mend(b, (uint32_t)u->heap);
  } else if (b->n_heap < b->capacity && !u->barred) {
    heap_insert(b, k->unit);
  } else if (b->n_heap && !u->barred && next_of(b, 0) > u->next) {
    out->lost = b->heap[0];
    heap_remove(b, 0);
    heap_insert(b, k->unit);
  }
  out->kept = u->heap >= 0;
  return true;
}

int64_t mr_belady_distance(const mr_belady_t *b, uint32_t unit) {
  if (unit >= b->n_units || b->unit[unit].next == NEVER) return -1;
  return b->unit[unit].next - b->taken;
}

bool mr_belady_hold(mr_belady_t *b, uint32_t unit) {
  if (!know_unit(b, unit) || b->n_heap == b->capacity || b->unit[unit].barred) return false;
  if (b->unit[unit].heap < 0) heap_insert(b, unit);
  return true;
}

bool mr_belady_bar(mr_belady_t *b, uint32_t unit, bool barred) {
  if (!barred && unit >= b->n_units) return true;
  if (!know_unit(b, unit)) return false;
  assert(b->unit[unit].heap < 0);
  b->unit[unit].barred = barred;
  return true;
}

void mr_belady_drop(mr_belady_t *b, uint32_t unit) {
  if (mr_belady_holds(b, unit)) heap_remove(b, (uint32_t)b->unit[unit].heap);
}

bool mr_belady_holds(const mr_belady_t *b, uint32_t unit) {
  return unit < b->n_units && b->unit[unit].heap >= 0;
}
