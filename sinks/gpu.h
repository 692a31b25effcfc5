/* Measurements of the first GPU from NVIDIA's management library.  The library is part of the
   driver, so it is loaded when the program runs.  One thread at a time. */
#ifndef MR_SINKS_GPU_H
#define MR_SINKS_GPU_H

#include <stdbool.h>

typedef struct mr_gpu {
  void *library, *device; /* NULL: no GPU */
} mr_gpu_t;

typedef struct mr_gpu_now {
  double busy;                 /* share of the last sample period in which a kernel ran, [0,1] */
  double memory, memory_total; /* bytes in use, bytes in all */
  double watts, celsius;       /* each of these fields is -1 where the GPU does not report it */
} mr_gpu_now_t;

/* Loads the library and finds the GPU.  Returns false without one; then the calls below do
   nothing. */
bool mr_gpu_open(mr_gpu_t *g);
bool mr_gpu_read(const mr_gpu_t *g, mr_gpu_now_t *out); /* false without a GPU: all fields are -1 */
void mr_gpu_close(mr_gpu_t *g);                         /* also after a failed open */

#endif
