/* Faults at system calls.  A test program whose .wrap file names a call is linked with
   -Wl,--wrap=CALL: every use of it in the libraries under test comes to __wrap_CALL here, which
   counts it and lets it through, or lets it fail if its number is the chosen one. */
#ifndef MR_TESTS_FAULT_H
#define MR_TESTS_FAULT_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

typedef enum fault_kind {
  FAULT_SHORT, /* half of the bytes; nothing at a call that moves none */
  FAULT_EINTR,
  FAULT_EAGAIN,
  FAULT_EIO,
  FAULT_ENOSPC,
  FAULT_KINDS
} fault_kind_t;

static const char *const fault_name[FAULT_KINDS] = {"short", "EINTR", "EAGAIN", "EIO", "ENOSPC"};

static struct {
  pthread_mutex_t lock;
  long calls;   /* so far */
  long at;      /* the call that fails, from 1; 0: none */
  bool forever; /* and all after it */
  long times;   /* how often it happened */
  fault_kind_t kind;
} fault = {.lock = PTHREAD_MUTEX_INITIALIZER};

static inline void fault_set(long at, fault_kind_t kind, bool forever) {
  pthread_mutex_lock(&fault.lock);
  fault.calls = 0, fault.at = at, fault.kind = kind, fault.forever = forever, fault.times = 0;
  pthread_mutex_unlock(&fault.lock);
}

/* The errno this call fails with; 0: it goes through; -1: it moves half of its bytes. */
static inline int fault_now(bool moves_bytes) {
  static const int number[FAULT_KINDS] = {-1, EINTR, EAGAIN, EIO, ENOSPC};
  pthread_mutex_lock(&fault.lock);
  long k = ++fault.calls;
  bool now = fault.at && (k == fault.at || (fault.forever && k > fault.at));
  if (now && fault.kind == FAULT_SHORT && !moves_bytes) now = false;
  int e = now ? number[fault.kind] : 0;
  fault.times += now;
  pthread_mutex_unlock(&fault.lock);
  return e;
}

/* Body of a wrapper for a call that returns -1 and errno; moves: bytes asked for, or 0. */
#define FAULT_OR(call)                 \
  do {                                 \
    int e_ = fault_now(false);         \
    if (e_ > 0) return errno = e_, -1; \
    return call;                       \
  } while (0)

#endif
