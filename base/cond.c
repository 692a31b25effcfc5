/* Condition variables on CLOCK_MONOTONIC. */
#include "base/cond.h"

#include <time.h>

void mr_cond_init(pthread_cond_t *c) {
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(c, &attr);
  pthread_condattr_destroy(&attr);
}

bool mr_cond_wait_until(pthread_cond_t *c, pthread_mutex_t *lock, int64_t until_ns) {
  struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
  return pthread_cond_timedwait(c, lock, &until) == 0;
}
