/* The one clock that durations are measured with.  Any thread; no call fails. */
#ifndef MR_BASE_CLOCK_H
#define MR_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds since a fixed moment, CLOCK_MONOTONIC; never decreases.  About 20 ns a call. */
static inline int64_t mr_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Processor time of the whole process in nanoseconds. */
static inline int64_t mr_cpu_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Processor time of the calling thread in nanoseconds.  A system call: some hundred ns. */
static inline int64_t mr_thread_cpu_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline double mr_now_s(void) { return 1e-9 * (double)mr_now_ns(); }

#endif
