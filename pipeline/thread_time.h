/* What the kernel says about a thread's time. */
#ifndef MR_PIPELINE_THREAD_TIME_H
#define MR_PIPELINE_THREAD_TIME_H

#include <stdint.h>

typedef struct mr_thread_time {
  int64_t cpu_ns;   /* ran */
  int64_t delay_ns; /* was pushed aside while it ran, and waited for a processor */
} mr_thread_time_t;

/* Of a thread of this process by its kernel id; about 20 us.  Zeros if it is gone or the kernel
   does not say. */
mr_thread_time_t mr_thread_time(int tid);

#endif
