/* A count that each child finds one higher.  It is changed while the child has one thread, before
   fork returns there, so that plain reads are enough. */
#include "base/forks.h"

#include <pthread.h>

static uint32_t forks;

static void count_fork(void) { forks++; }

__attribute__((constructor)) static void watch_forks(void) {
  pthread_atfork(NULL, NULL, count_fork);
}

uint32_t mr_forks(void) { return forks; }
