/* A short-lived thread lowers its priority and calls a function, whose threads inherit it.  The
   rate limit is a token bucket whose tokens are nanoseconds: a connection costs each_ns, a pause
   earns its length. */
#include "sinks/background.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

enum { LOWEST = 19 };

typedef struct call {
  void (*fn)(void *arg);
  void *arg;
} call_t;

/* On Linux each thread has its own priority, which it can lower without a privilege. */
static void *call_low(void *arg) {
  const call_t *c = arg;
  setpriority(PRIO_PROCESS, (id_t)gettid(), LOWEST);
  c->fn(c->arg);
  return NULL;
}

void mr_in_background(void (*fn)(void *arg), void *arg) {
  call_t c = {fn, arg};
  pthread_t thread;
  if (pthread_create(&thread, NULL, call_low, &c) == 0)
    pthread_join(thread, NULL);
  else
    fn(arg);
}

mr_rate_limit_t mr_rate_limit(int burst, int64_t each_ns) {
  return (mr_rate_limit_t){.each_ns = each_ns, .credit_ns = burst * each_ns, .burst = burst};
}

int64_t mr_rate_limit_wait_ns(mr_rate_limit_t *t, int64_t now_ns) {
  int64_t most = t->burst * t->each_ns;
  if (t->at_ns) t->credit_ns += now_ns - t->at_ns;
  if (t->credit_ns > most) t->credit_ns = most;
  t->at_ns = now_ns;
  return t->credit_ns >= t->each_ns ? 0 : t->each_ns - t->credit_ns;
}

void mr_rate_limit_pass(mr_rate_limit_t *t) { t->credit_ns -= t->each_ns; }
