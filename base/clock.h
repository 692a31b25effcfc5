/* Time: the one clock that durations are measured with, condition variables on that clock, and
   processor time as the kernel counts it.  Any thread; no call fails. */
#ifndef MR_BASE_CLOCK_H
#define MR_BASE_CLOCK_H

#include <pthread.h>
#include <stdbool.h>
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

/* Replaces pthread_cond_init: time limits of c are on the clock of mr_now_ns, which setting the
   time of day does not affect.  The caller ends it with pthread_cond_destroy. */
void mr_cond_init(pthread_cond_t *c);

/* Waits with lock held, as pthread_cond_wait does, until c is signalled or mr_now_ns reaches
   until_ns. Returns true after a wake-up, which may be spurious, and false when the time is up. */
bool mr_cond_wait_until(pthread_cond_t *c, pthread_mutex_t *lock, int64_t until_ns);

/* The kernel's account of one thread's processor time. */
typedef struct mr_thread_time {
  int64_t cpu_ns;   /* ran */
  int64_t delay_ns; /* was preempted, and waited for a processor */
} mr_thread_time_t;

/* Times of a thread of this process by its kernel id; both 0 if the thread has ended or the kernel
   does not report them.  Any thread; takes about 20 us. */
mr_thread_time_t mr_thread_time(int tid);

/* The ns for which the processors that this process may use have worked since boot, in steps of
   about 10 ms; 0 if unknown.  Any thread; takes about 50 us. */
int64_t mr_processors_ns(void);

#endif
