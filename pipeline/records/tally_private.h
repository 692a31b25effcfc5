/* How long the calls of one record stage take: some calls are timed, the rest are counted. */
#ifndef MR_PIPELINE_RECORDS_TALLY_PRIVATE_H
#define MR_PIPELINE_RECORDS_TALLY_PRIVATE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/clock.h"

/* Prime, so that it does not coincide with bursts and batches.  Calls that are long on average are
   all timed: the clock costs little beside them. */
enum {
  MR__TALLY_EVERY = 13,
  MR__TALLY_LONG_NS = 5000,
  MR__TALLY_CLOCK_NS = 20 /* per reading */
};

/* Written by one worker, read by any thread; all relaxed, an estimate from independent numbers. */
typedef struct mr__tally {
  _Atomic int64_t calls, ns; /* ns of the calls before `known`; each timed call stands for the
                                untimed ones before it */
  _Atomic int64_t known;
  int64_t next; /* the worker's own: number of the next call to time */
} mr__tally_t;

static inline void mr__tally_add(_Atomic int64_t *c, int64_t n) {
  atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + n, memory_order_relaxed);
}

/* Before a call; pass the result to mr__tally_end. */
static inline int64_t mr__tally_begin(mr__tally_t *t) {
  int64_t n = atomic_load_explicit(&t->calls, memory_order_relaxed);
  atomic_store_explicit(&t->calls, n + 1, memory_order_relaxed);
  return n < t->next ? 0 : mr_now_ns();
}

static inline void mr__tally_end(mr__tally_t *t, int64_t since) {
  if (!since) return;
  int64_t took = mr_now_ns() - since - MR__TALLY_CLOCK_NS;
  int64_t n = atomic_load_explicit(&t->calls, memory_order_relaxed);
  int64_t known = atomic_load_explicit(&t->known, memory_order_relaxed);
  mr__tally_add(&t->ns, took > 0 ? took * (n - known) : 0);
  atomic_store_explicit(&t->known, n, memory_order_relaxed);
  bool slow = atomic_load_explicit(&t->ns, memory_order_relaxed) / n > MR__TALLY_LONG_NS;
  t->next = n - 1 + (slow ? 1 : MR__TALLY_EVERY);
}

/* Estimated time of all calls, ns. */
static inline double mr__tally_ns(const mr__tally_t *t) {
  int64_t known = atomic_load_explicit(&t->known, memory_order_relaxed);
  double ns = (double)atomic_load_explicit(&t->ns, memory_order_relaxed);
  double calls = (double)atomic_load_explicit(&t->calls, memory_order_relaxed);
  return known ? ns / (double)known * calls : 0;
}

#endif
