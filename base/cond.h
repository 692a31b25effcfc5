/* Condition variables whose time limits are on the clock of base/clock.h, which setting the time of
   day does not affect. */
#ifndef MR_BASE_COND_H
#define MR_BASE_COND_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Replaces pthread_cond_init.  The caller ends it with pthread_cond_destroy. */
void mr_cond_init(pthread_cond_t *c);

/* Waits with lock held, as pthread_cond_wait does, until c is signalled or mr_now_ns reaches
   until_ns. Returns true after a wake-up, which may be spurious, and false when the time is up. */
bool mr_cond_wait_until(pthread_cond_t *c, pthread_mutex_t *lock, int64_t until_ns);

#endif
