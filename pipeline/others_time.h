/* How much the processors work, for this process and all others. */
#ifndef MR_PIPELINE_OTHERS_TIME_H
#define MR_PIPELINE_OTHERS_TIME_H

#include <stdint.h>

/* The ns for which the processors that this process may use have worked since boot, in steps of
   about 10 ms; 0 if the kernel does not tell.  Any thread; takes about 50 us. */
int64_t mr_processors_ns(void);

#endif
