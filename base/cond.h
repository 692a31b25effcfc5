/* Conditions that threads wait for with a limit on the clock of base/clock.h, which goes on evenly
   when the time of day is set. */
#ifndef MR_BASE_COND_H
#define MR_BASE_COND_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* In the place of pthread_cond_init; pthread_cond_destroy ends it. */
void mr_cond_init(pthread_cond_t *c);

/* pthread_cond_wait until c is signalled (or seems to be), or mr_now_ns is until_ns: then false. */
bool mr_cond_wait_until(pthread_cond_t *c, pthread_mutex_t *lock, int64_t until_ns);

#endif
