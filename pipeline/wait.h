/* Adaptive waiting: some tens of pauses, a few yields, then a futex.

   One wait object a thread; everything that the thread may wait for notifies it.  The notifier
   first publishes its news with a sequentially consistent exchange or read-modify-write, then calls
   mr_wait_wake; the waiter parks with an exchange and looks at the news again before it sleeps.  In
   the single order of these operations one of both sees the other, so no wake-up is lost. */
#ifndef MR_PIPELINE_WAIT_H
#define MR_PIPELINE_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>

typedef struct mr_wait {
  _Alignas(64) atomic_uint parked; /* 1: the owner sleeps or is about to */
} mr_wait_t;
_Static_assert(sizeof(mr_wait_t) == 64, "a wait object has a cache line to itself");

/* Owner: returns once ready(arg) is true.  ready reads the news with sequentially consistent loads
   and is called many times. */
void mr_wait_until(mr_wait_t *w, bool (*ready)(void *arg), void *arg);

void mr__wait_unpark(mr_wait_t *w);

/* Any thread, any time after news was published; also in a signal handler.  Enters the kernel only
   when the owner sleeps. */
static inline void mr_wait_wake(mr_wait_t *w) {
  if (atomic_load_explicit(&w->parked, memory_order_seq_cst)) mr__wait_unpark(w);
}

#endif
