/* What the rest of the machine works meanwhile. */
#ifndef MR_PIPELINE_OTHERS_TIME_H
#define MR_PIPELINE_OTHERS_TIME_H

#include <stdint.h>

/* ns that the processors which this process may use have worked so far, for whomever, to about
   10 ms; 0 where the kernel does not say.  Any thread; about 50 us. */
int64_t mr_processors_ns(void);

#endif
