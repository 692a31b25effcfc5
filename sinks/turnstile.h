/* How often strangers are let in: some at once, then one at a time.

   Whoever comes is looked at, which takes time from training; so there is a limit to how often. Who
   knocks more often waits outside, where the kernel keeps him. */
#ifndef MR_SINKS_TURNSTILE_H
#define MR_SINKS_TURNSTILE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mr_turnstile {
  int64_t each_ns;          /* > 0: from one to the next, once the burst is over */
  int64_t credit_ns, at_ns; /* time that nobody has used; when it was counted last */
  int burst;                /* > 0: this many at once after a rest */
} mr_turnstile_t;

/* One that nobody has come through yet. */
mr_turnstile_t mr_turnstile(int burst, int64_t each_ns);
/* How long the next one is to wait at this time (mr_now_ns), 0: may come in now. */
int64_t mr_turnstile_wait_ns(mr_turnstile_t *t, int64_t now_ns);
/* One has come in, after a wait of 0 or none at all. */
void mr_turnstile_pass(mr_turnstile_t *t);

#endif
