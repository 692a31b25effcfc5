/* Adaptive waiting: some tens of pauses, a few yields, then a futex.

   Threads that delay no other thread (patient ones: the consumers of lossy rings) do not spin, and
   doze for MR_WAIT_DOZE_MS before they park: news that can wait then costs its producer no system
   call, and a burst of it one wake-up.

   Each thread has one wait object, which everything that it may wait for notifies.  The notifier
   publishes its news with a sequentially consistent exchange or read-modify-write, then calls
   mr_wait_wake; the waiter parks with an exchange and checks for news once more before it sleeps.
   In the single order of these operations one of the two sees the other, so no wake-up is lost. */
#ifndef MR_PIPELINE_WAIT_H
#define MR_PIPELINE_WAIT_H

#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { MR_WAIT_DOZE_MS = 50 };
enum { MR__PARKED = 1, MR__POLLS, MR__DOZES };

typedef struct mr_wait {
  _Alignas(64) atomic_uint parked; /* the owner sleeps or is about to: MR__PARKED ...; seq_cst, see
                                      above */
  atomic_int event; /* poll: the descriptor that wakes it, plus 1; 0: none yet.  The owner's release
                       pairs with the acquire in mr__wait_unpark */
  bool patient;     /* set before the owner starts */
} mr_wait_t;
_Static_assert(sizeof(mr_wait_t) == 64, "a wait object has a cache line to itself");

/* Owner: blocks until ready(arg) is true.  ready reads the news with sequentially consistent loads
   and is called many times. */
void mr_wait_until(mr_wait_t *w, bool (*ready)(void *arg), void *arg);

/* What mr_wait_until begins with: some pauses and yields.  Whether ready(arg) is true by then. */
bool mr__wait_spin(bool (*ready)(void *arg), void *arg);

/* Owner: as mr_wait_until without these, but returns also once one of fd[0,n), n in
   [0,MR_WAIT_FDS], is ready or ms have passed (< 0: no limit), or a signal handler has run in this
   thread, and errno is EINTR then, else 0.  True; false at once if the process has no descriptor
   left for this. */
enum { MR_WAIT_FDS = 7 };
bool mr_wait_poll(mr_wait_t *w, bool (*ready)(void *arg), void *arg, const struct pollfd *fd, int n,
                  int ms);

/* Closes what mr_wait_poll opened; no other thread may notify any more. */
void mr_wait_fini(mr_wait_t *w);

void mr__wait_unpark(mr_wait_t *w);

/* Any thread, after news was published; also in a signal handler.  Enters the kernel only if the
   owner sleeps. */
static inline void mr_wait_wake(mr_wait_t *w) {
  if (atomic_load_explicit(&w->parked, memory_order_seq_cst)) mr__wait_unpark(w);
}

/* As mr_wait_wake, for news that can wait: a dozing owner sees it when its doze is over. */
static inline void mr_wait_hint(mr_wait_t *w) {
  unsigned how = atomic_load_explicit(&w->parked, memory_order_seq_cst);
  if (how && how != MR__DOZES) mr__wait_unpark(w);
}

#endif
