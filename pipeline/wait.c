/* Waiting: spin, then sleep on a futex, or poll with an eventfd beside other descriptors.  A waiter
   announces that it sleeps before it looks a last time, and a notifier publishes its news before it
   looks for sleepers: one of the two sees the other. */
#include "pipeline/wait.h"

#include <assert.h>
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Longer spinning would take the core from the thread that is waited for.  The tests of weak memory
   spin less, so that threads sleep often. */
#ifndef MR_WAIT_PAUSES
#define MR_WAIT_PAUSES 40
#endif
enum { PAUSES = MR_WAIT_PAUSES, YIELDS = 4 };

static inline void pause_cpu(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static long futex_call(atomic_uint *word, int op, unsigned value, const struct timespec *most) {
  return syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, most, NULL, 0);
}

void mr__wait_unpark(mr_wait_t *w) {
  int kept = errno; /* a signal handler must not change it */
  /* Pairs with the exchange in mr_wait_until: of several notifiers only one makes the call. */
  unsigned how = atomic_exchange_explicit(&w->parked, 0, memory_order_seq_cst);
  assert(how <= MR__DOZES);
  if (how == MR__PARKED || how == MR__DOZES) futex_call(&w->parked, FUTEX_WAKE, 1, NULL);
  if (how == MR__POLLS) { /* acquire pairs with the release in wait_open_event */
    uint64_t one = 1;
    int fd = atomic_load_explicit(&w->event, memory_order_acquire) - 1;
    assert(fd >= 0);                                /* opened before it polled */
    if (write(fd, &one, sizeof one) < 0) errno = 0; /* full means readable already */
  }
  errno = kept;
}

bool mr__wait_spin(bool (*ready)(void *arg), void *arg) {
  for (int i = 0; i < PAUSES; i++) {
    if (ready(arg)) return true;
    pause_cpu();
  }
  for (int i = 0; i < YIELDS; i++) {
    if (ready(arg)) return true;
    sched_yield();
  }
  return false;
}

/* Only the owner, which runs now, sets it to a value other than 0: relaxed, it sees its own
   stores. */
static bool is_awake(const mr_wait_t *w) {
  return !atomic_load_explicit(&w->parked, memory_order_relaxed);
}

/* A wake-up just before the exchange is missed; its news is seen after the doze. */
static void doze_until_woken(mr_wait_t *w) {
  const struct timespec most = {0, MR_WAIT_DOZE_MS * 1000000L};
  atomic_exchange_explicit(&w->parked, MR__DOZES, memory_order_seq_cst); /* as in mr_wait_until */
  futex_call(&w->parked, FUTEX_WAIT, MR__DOZES, &most);
}

void mr_wait_until(mr_wait_t *w, bool (*ready)(void *arg), void *arg) {
  assert(is_awake(w)); /* one thread per wait object */
  if (!w->patient && mr__wait_spin(ready, arg)) return;
  if (w->patient) doze_until_woken(w);
  for (;;) {
    /* seq_cst: ordered before ready's loads; pairs with mr_wait_wake's load. */
    atomic_exchange_explicit(&w->parked, MR__PARKED, memory_order_seq_cst);
    if (ready(arg)) break;
    futex_call(&w->parked, FUTEX_WAIT, MR__PARKED,
               NULL); /* returns at once if a notifier was first */
  }
  atomic_store_explicit(&w->parked, 0, memory_order_relaxed); /* the owner runs: no pair needed */
}

static int wait_open_event(mr_wait_t *w) {
  int fd = atomic_load_explicit(&w->event, memory_order_relaxed) - 1; /* the owner's own */
  if (fd >= 0) return fd;
  fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (fd >= 0) atomic_store_explicit(&w->event, fd + 1, memory_order_release);
  return fd;
}

bool mr_wait_poll(mr_wait_t *w, bool (*ready)(void *arg), void *arg, const struct pollfd *fd, int n,
                  int ms) {
  struct pollfd all[MR_WAIT_FDS + 1];
  uint64_t drained;
  assert(is_awake(w) && n >= 0 && n <= MR_WAIT_FDS);
  int event = wait_open_event(w);
  if (event < 0) return false;
  all[0] = (struct pollfd){.fd = event, .events = POLLIN};
  if (n) memcpy(all + 1, fd, (size_t)n * sizeof *fd);
  atomic_exchange_explicit(&w->parked, MR__POLLS, memory_order_seq_cst); /* as in mr_wait_until */
  int why = !ready(arg) && poll(all, (nfds_t)n + 1, ms) < 0 ? errno : 0;
  atomic_store_explicit(&w->parked, 0, memory_order_relaxed); /* as in mr_wait_until */
  while (read(event, &drained, sizeof drained) > 0) {
  }
  errno = why;
  return true;
}

void mr_wait_fini(mr_wait_t *w) {
  /* acq_rel: the owner and all notifiers are done, so no unpark may find the descriptor. */
  int event = atomic_exchange_explicit(&w->event, 0, memory_order_acq_rel);
  if (event) close(event - 1);
}
