/* Delays for the stages that simulate slow ones. */
#ifndef MR_STAGES_BUSY_H
#define MR_STAGES_BUSY_H

#include <errno.h>
#include <stdbool.h>

#include <stdint.h>

#include "base/clock.h"

enum { MR_OWES = 16 }; /* delay stages of a thread with their debts kept */

/* By how much this thread has overslept in the stage with this state, ns.  Points to thread-local
   memory, valid while at most MR_OWES stages use it. */
static inline int64_t *mr_sleep_owes(const void *state) {
  static _Thread_local struct {
    const void *state;
    int64_t ns;
  } owes[MR_OWES];
  static _Thread_local unsigned oldest;
  for (int i = 0; i < MR_OWES; i++)
    if (owes[i].state == state) return &owes[i].ns;
  unsigned i = oldest++ % MR_OWES;
  owes[i].state = state, owes[i].ns = 0;
  return &owes[i].ns;
}

/* Occupies the processor for us microseconds of this thread's time, as a slow stage would. */
static inline void mr_compute_us(double us) {
  int64_t end = mr_thread_cpu_ns() + (int64_t)(us * 1e3);
  while (mr_thread_cpu_ns() < end) continue;
}

/* Sleeps for us microseconds.  A thread that wakes too late sleeps less the next times, so that
   many calls take the requested time whatever else runs. */
static inline void mr_sleep_us(const void *state, double us) {
  int64_t *owes = mr_sleep_owes(state);
  int64_t begin = mr_now_ns(), end = begin + (int64_t)(us * 1e3) - *owes;
  struct timespec t = {(time_t)(end / 1000000000), (long)(end % 1000000000)};
  if (end > begin)
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) continue;
  *owes = mr_now_ns() - end;
}

/* Sleeps or computes. */
static inline void mr_pass_us(const void *state, double us, bool asleep) {
  if (asleep)
    mr_sleep_us(state, us);
  else
    mr_compute_us(us);
}

#endif
