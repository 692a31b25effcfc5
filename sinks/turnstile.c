/* A token bucket whose tokens are nanoseconds: a connection costs each_ns, a pause earns its
   length. */
#include "sinks/turnstile.h"

mr_turnstile_t mr_turnstile(int burst, int64_t each_ns) {
  return (mr_turnstile_t){.each_ns = each_ns, .credit_ns = burst * each_ns, .burst = burst};
}

int64_t mr_turnstile_wait_ns(mr_turnstile_t *t, int64_t now_ns) {
  int64_t most = t->burst * t->each_ns;
  if (t->at_ns) t->credit_ns += now_ns - t->at_ns;
  if (t->credit_ns > most) t->credit_ns = most;
  t->at_ns = now_ns;
  return t->credit_ns >= t->each_ns ? 0 : t->each_ns - t->credit_ns;
}

void mr_turnstile_pass(mr_turnstile_t *t) { t->credit_ns -= t->each_ns; }
