/* Passing time for the delay stages. */
#ifndef MR_STAGES_BUSY_H
#define MR_STAGES_BUSY_H

#include <errno.h>
#include <stdbool.h>

#include "base/clock.h"

/* Until us microseconds from now: asleep, or computing nothing as a slow stage would. */
static inline void mr_pass_us(double us, bool asleep) {
  int64_t end = mr_now_ns() + (int64_t)(us * 1e3);
  struct timespec t = {(time_t)(end / 1000000000), (long)(end % 1000000000)};
  if (asleep)
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) continue;
  else
    while (mr_now_ns() < end) continue;
}

#endif
