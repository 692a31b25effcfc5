/* Keeps network peers from taking time from training, however many requests they send: low priority
   for threads that serve them, and a rate limit on new connections. */
#ifndef MR_SINKS_BACKGROUND_H
#define MR_SINKS_BACKGROUND_H

#include <stdbool.h>
#include <stdint.h>

void mr_in_background(void (*fn)(void *arg), void *arg);

/* A rate limit (token bucket) for accepting connections: a burst at once, then one per interval;
   more connections wait in the kernel's accept queue.  One thread at a time; no call blocks or
   fails. */
typedef struct mr_rate_limit {
  int64_t each_ns;          /* > 0: between two connections once the burst is used up */
  int64_t credit_ns, at_ns; /* unused time; when it was last updated */
  int burst;                /* > 0: most connections at once after a pause */
} mr_rate_limit_t;

/* Returns a limit with its whole burst available. */
mr_rate_limit_t mr_rate_limit(int burst, int64_t each_ns);
/* Returns how many ns from now_ns (mr_now_ns) on the next connection must wait; 0 if it may be
   accepted now. */
int64_t mr_rate_limit_wait_ns(mr_rate_limit_t *t, int64_t now_ns);
/* Counts an accepted connection. */
void mr_rate_limit_pass(mr_rate_limit_t *t);

#endif
