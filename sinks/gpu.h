/* What NVIDIA's management library says of the first GPU, where there is one.  The library belongs
   to the driver, so it is looked for when the program runs. */
#ifndef MR_SINKS_GPU_H
#define MR_SINKS_GPU_H

#include <stdbool.h>

typedef struct mr_gpu {
  void *library, *device; /* NULL: no GPU */
} mr_gpu_t;

typedef struct mr_gpu_now {
  double busy;                 /* share of the last moments in which a kernel ran, [0,1] */
  double memory, memory_total; /* bytes in use, bytes there */
  double watts, celsius;       /* each of these is -1 where the GPU does not say */
} mr_gpu_now_t;

/* False without a GPU; then the calls below do nothing. */
bool mr_gpu_open(mr_gpu_t *g);
bool mr_gpu_read(const mr_gpu_t *g, mr_gpu_now_t *out); /* false: nothing was read */
void mr_gpu_close(mr_gpu_t *g);                         /* also after a failed open */

#endif
