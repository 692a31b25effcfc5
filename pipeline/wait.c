#include "pipeline/wait.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Longer spinning takes the core away from the thread that is waited for. */
enum { PAUSES = 40, YIELDS = 4 };

static inline void pause_cpu(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static long futex(atomic_uint *word, int op, unsigned value) {
  return syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

void mr__wait_unpark(mr_wait_t *w) {
  int kept = errno; /* a signal handler must not change it */
  /* Pairs with the exchange below: of several notifiers one makes the call. */
  if (atomic_exchange_explicit(&w->parked, 0, memory_order_seq_cst))
    futex(&w->parked, FUTEX_WAKE, 1);
  errno = kept;
}

void mr_wait_until(mr_wait_t *w, bool (*ready)(void *arg), void *arg) {
  for (int i = 0; i < PAUSES; i++) {
    if (ready(arg)) return;
    pause_cpu();
  }
  for (int i = 0; i < YIELDS; i++) {
    if (ready(arg)) return;
    sched_yield();
  }
  for (;;) {
    /* seq_cst: ordered before ready's loads; pairs with mr_wait_wake's load. */
    atomic_exchange_explicit(&w->parked, 1, memory_order_seq_cst);
    if (ready(arg)) break;
    futex(&w->parked, FUTEX_WAIT, 1); /* returns at once if a notifier was faster */
  }
  atomic_store_explicit(&w->parked, 0, memory_order_relaxed); /* the owner runs: no pair needed */
}
