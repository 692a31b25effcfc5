/* A ring with one producer and one consumer.  Each side publishes one word, its index and whether
   it is done; a full or empty ring is found by the other's word, which is read only when the cached
   copy is used up.  In a lossy ring both sides take from the front, and a compare-and-swap decides.
 */
#include "pipeline/ring.h"

#include <assert.h>
#include <string.h>

/* Each side writes its own line and reads the other's only when its cached copy of the other's
   index says full or empty.  Indices only grow; the lowest bit of the published word says that the
   side is done (closed, abandoned), so that a single load tells both. */
enum { DONE = 1, LOST_PRODUCER = 1, LOST_CONSUMER = 2 };

typedef struct {
  _Alignas(
      64) _Atomic uint64_t word; /* index << 1 | DONE: post() and take_front() publish it (seq_cst);
                                    ring_look() on the other side sees what precedes it */
  uint64_t index;                /* own copy */
  uint64_t seen;                 /* the other side's index, as last read */
  mr_wait_t *other;              /* the thread that waits for this side's news */
} side_t;

struct mr_ring {
  side_t producer, consumer;
  _Alignas(64) size_t mask;
  bool lossy;
  atomic_uint draining; /* 1: one side empties a ring whose consumer has left, see ring_drain() */
  atomic_uint absent;   /* LOST_PRODUCER | LOST_CONSUMER; seq_cst, as the words of both sides */
  _Atomic int64_t lost; /* written by the producer alone, relaxed: an independent count */
  _Alignas(64) _Atomic(mr_buf_t *) slot[]; /* [depth]; relaxed: the words order them */
};
_Static_assert(offsetof(struct mr_ring, consumer) - offsetof(struct mr_ring, producer) >= 64,
               "producer and consumer do not share a cache line");
_Static_assert(offsetof(struct mr_ring, mask) - offsetof(struct mr_ring, consumer) >= 64,
               "what both read does not share a line with what one writes");

size_t mr_ring_footprint(size_t depth) {
  if (depth < 2 || depth > 65536 || (depth & (depth - 1))) return 0;
  return (sizeof(mr_ring_t) + depth * sizeof(mr_buf_t *) + 63) / 64 * 64;
}

mr_ring_t *mr_ring_init(void *mem, size_t depth, mr_wait_t *producer, mr_wait_t *consumer) {
  if (!mr_ring_footprint(depth)) return NULL;
  assert((uintptr_t)mem % 64 == 0);
  mr_ring_t *r = mem;
  memset(r, 0, sizeof *r);
  r->mask = depth - 1;
  r->producer.other = consumer;
  r->consumer.other = producer;
  return r;
}

void mr_ring_set_lossy(mr_ring_t *r) {
  assert(!r->producer.index && !r->consumer.index);
  r->lossy = true;
}

bool mr_ring_is_lossy(const mr_ring_t *r) { return r->lossy; }

int64_t mr_ring_lost(const mr_ring_t *r) {
  return atomic_load_explicit(&r->lost, memory_order_relaxed); /* an independent count */
}

void mr_ring_fini(mr_ring_t *r) {
  mr_buf_t *b;
  while (mr_ring_pop(r, &b, 1)) mr_buf_unref(b);
}

/* seq_cst exchange: releases the slots to the acquire in ring_look(), and precedes the load of the
   other side's parked flag in mr_wait_wake. */
static void post_index(side_t *s, uint64_t done) {
  atomic_exchange_explicit(&s->word, s->index << 1 | done, memory_order_seq_cst);
}

static void ring_publish(side_t *s, uint64_t done) {
  post_index(s, done);
  if (s->other) mr_wait_wake(s->other);
}

/* Pairs with post(): what the other side did before is visible.  seq_cst because waiters decide by
   it whether to sleep. */
static uint64_t ring_look(const side_t *s) {
  return atomic_load_explicit(&s->word, memory_order_seq_cst);
}

/* Only this side writes its own word, so relaxed reads suffice. */
static uint64_t is_own_done(const side_t *s) {
  return atomic_load_explicit(&s->word, memory_order_relaxed) & DONE;
}

/* Pairs with mr_ring_lose_*: seq_cst because waiters decide by it whether to sleep. */
static bool is_lost(const mr_ring_t *r, unsigned side) {
  return atomic_load_explicit(&r->absent, memory_order_seq_cst) & side;
}

/* The consumer has left and calls none of its functions, unlike one that is lost. */
static bool consumer_has_left(const mr_ring_t *r) { return ring_look(&r->consumer) & DONE; }

static size_t cached_room(const mr_ring_t *r) {
  assert(r->producer.index - r->producer.seen <= r->mask + 1); /* the consumer is not ahead */
  return r->mask + 1 - (size_t)(r->producer.index - r->producer.seen);
}

size_t mr_ring_room(mr_ring_t *r) {
  if (r->lossy) return r->mask + 1;
  r->producer.seen = ring_look(&r->consumer) >> 1;
  return cached_room(r);
}

/* Releases what is left in a ring whose consumer has left.  Both sides call this: the consumer
   after announcing it, and the producer after each push that finds it gone.  In the single order of
   these operations one of the two sees what the other did, so no buffer stays behind, which would
   never return to its pool.  The flag lets one of them pop at a time (acquire and release hand the
   consumer's own fields over); the other relies on the check after it. */
static void ring_drain(mr_ring_t *r) {
  do {
    if (atomic_exchange_explicit(&r->draining, 1, memory_order_seq_cst)) return;
    mr_ring_fini(r);
    atomic_store_explicit(&r->draining, 0, memory_order_seq_cst);
  } while (ring_look(&r->producer) >> 1 != ring_look(&r->consumer) >> 1);
}

/* ---- lossy rings: both sides take from the front, and a compare-and-swap decides ---- */

/* The oldest buffer, or NULL.  A slot is overwritten only after the front has passed it, so a
   successful swap proves that the pointer read before was the slot's. */
static mr_buf_t *take_front(mr_ring_t *r) {
  uint64_t front = ring_look(&r->consumer), want;
  mr_buf_t *b;
  do {
    if (front >> 1 == ring_look(&r->producer) >> 1) return NULL;
    b = atomic_load_explicit(&r->slot[front >> 1 & r->mask], memory_order_relaxed);
    assert(b);
    want = front + 2; /* one further; the DONE bit stays */
  } while (!atomic_compare_exchange_weak_explicit(&r->consumer.word, &front, want,
                                                  memory_order_seq_cst, memory_order_seq_cst));
  return b;
}

static void push_lossy(mr_ring_t *r, mr_buf_t *b) {
  assert(b && !is_own_done(&r->producer));
  while (r->producer.index - (ring_look(&r->consumer) >> 1) > r->mask) {
    mr_buf_t *old = take_front(r);
    if (!old) continue; /* the consumer was faster: there is room */
    mr_buf_unref(old);
    if (!mr_ring_gone(r)) atomic_fetch_add_explicit(&r->lost, 1, memory_order_relaxed);
  }
  assert(r->producer.index - (ring_look(&r->consumer) >> 1) <=
         r->mask); /* the front has passed the slot */
  atomic_store_explicit(&r->slot[r->producer.index++ & r->mask], b, memory_order_relaxed);
  post_index(&r->producer, is_own_done(&r->producer));
  if (!r->producer.other) return;
  /* News can wait while there is room for more of it. */
  if (r->producer.index - (ring_look(&r->consumer) >> 1) > r->mask / 2)
    mr_wait_wake(r->producer.other);
  else
    mr_wait_hint(r->producer.other);
}

static size_t pop_lossy(mr_ring_t *r, mr_buf_t **out, size_t n) {
  size_t k = 0;
  while (k < n && (out[k] = take_front(r))) k++;
  return k;
}

/* ---- both kinds ---- */

size_t mr_ring_push(mr_ring_t *r, mr_buf_t *const *in, size_t n) {
  if (r->lossy) {
    for (size_t i = 0; i < n; i++) push_lossy(r, in[i]);
    if (consumer_has_left(r)) ring_drain(r);
    return n;
  }
  size_t k = cached_room(r);
  if (k < n) k = mr_ring_room(r);
  if (k > n) k = n;
  if (!k) return 0;
  assert(!is_own_done(&r->producer)); /* nothing follows a close */
  for (size_t i = 0; i < k; i++) {
    assert(in[i]);
    atomic_store_explicit(&r->slot[(r->producer.index + i) & r->mask], in[i], memory_order_relaxed);
  }
  r->producer.index += k;
  ring_publish(&r->producer, 0);
  if (consumer_has_left(r)) ring_drain(r);
  return k;
}

void mr_ring_close(mr_ring_t *r) { ring_publish(&r->producer, DONE); }
bool mr_ring_gone(mr_ring_t *r) { return consumer_has_left(r) || is_lost(r, LOST_CONSUMER); }

static size_t cached_ready(const mr_ring_t *r) {
  assert(r->consumer.seen - r->consumer.index <=
         r->mask + 1); /* the producer is not a ring ahead */
  return (size_t)(r->consumer.seen - r->consumer.index);
}

size_t mr_ring_ready(mr_ring_t *r) {
  r->consumer.seen = ring_look(&r->producer) >> 1;
  if (r->lossy) return (size_t)(r->consumer.seen - (ring_look(&r->consumer) >> 1));
  return cached_ready(r);
}

size_t mr_ring_pop(mr_ring_t *r, mr_buf_t **out, size_t n) {
  if (r->lossy) return pop_lossy(r, out, n);
  size_t k = cached_ready(r);
  if (k < n) k = mr_ring_ready(r);
  if (k > n) k = n;
  if (!k) return 0;
  for (size_t i = 0; i < k; i++)
    out[i] =
        atomic_load_explicit(&r->slot[(r->consumer.index + i) & r->mask], memory_order_relaxed);
  assert(out[0] && out[k - 1]);
  r->consumer.index += k;
  post_index(&r->consumer, is_own_done(&r->consumer));
  if (cached_ready(r) <= r->mask / 2) mr_ring_nudge(r);
  return k;
}

void mr_ring_nudge(mr_ring_t *r) {
  if (r->consumer.other) mr_wait_wake(r->consumer.other);
}

bool mr_ring_over(mr_ring_t *r) {
  uint64_t front = r->lossy ? ring_look(&r->consumer) >> 1 : r->consumer.index;
  uint64_t word = ring_look(&r->producer);
  return word == (front << 1 | DONE) || (word == front << 1 && is_lost(r, LOST_PRODUCER));
}

static void ring_lose(mr_ring_t *r, unsigned side, mr_wait_t *other) {
  atomic_fetch_or_explicit(&r->absent, side, memory_order_seq_cst);
  if (other) mr_wait_wake(other);
}

void mr_ring_lose_producer(mr_ring_t *r) { ring_lose(r, LOST_PRODUCER, r->producer.other); }
void mr_ring_lose_consumer(mr_ring_t *r) { ring_lose(r, LOST_CONSUMER, r->consumer.other); }

void mr_ring_abandon(mr_ring_t *r) {
  if (r->lossy)
    atomic_fetch_or_explicit(&r->consumer.word, DONE, memory_order_seq_cst);
  else
    post_index(&r->consumer, DONE);
  ring_drain(r);
  if (r->consumer.other) mr_wait_wake(r->consumer.other);
}

uint64_t mr_ring_front(const mr_ring_t *r) { return ring_look(&r->consumer) >> 1; }

bool mr_ring_pop_front(mr_ring_t *r, uint64_t front, mr_buf_t **out) {
  uint64_t word = ring_look(&r->consumer);
  assert(r->lossy && front <= word >> 1); /* fronts only grow */
  if (word >> 1 != front || front == ring_look(&r->producer) >> 1) return false;
  *out = atomic_load_explicit(&r->slot[front & r->mask], memory_order_relaxed);
  return atomic_compare_exchange_strong_explicit(&r->consumer.word, &word, word + 2,
                                                 memory_order_seq_cst, memory_order_seq_cst);
}

size_t mr_ring_depth(const mr_ring_t *r) { return r->mask + 1; }
uint64_t mr_ring_pushed(const mr_ring_t *r) { return ring_look(&r->producer); }
uint64_t mr_ring_popped(const mr_ring_t *r) { return ring_look(&r->consumer); }
