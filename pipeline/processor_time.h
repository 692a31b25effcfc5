/* The kernel's account of processor time: a thread's, and that of all programs. */
#ifndef MR_PIPELINE_PROCESSOR_TIME_H
#define MR_PIPELINE_PROCESSOR_TIME_H

#include <stdint.h>

typedef struct mr_thread_time {
  int64_t cpu_ns;   /* ran */
  int64_t delay_ns; /* was preempted, and waited for a processor */
} mr_thread_time_t;

/* Times of a thread of this process by its kernel id; both 0 if the thread has ended or the kernel
   does not tell.  Any thread; takes about 20 us. */
mr_thread_time_t mr_thread_time(int tid);

/* The ns for which the processors that this process may use have worked since boot, in steps of
   about 10 ms; 0 if the kernel does not tell.  Any thread; takes about 50 us. */
int64_t mr_processors_ns(void);

#endif
