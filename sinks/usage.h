/* Resources in use: of this process (usage.c), and of the first GPU (gpu.c). */
#ifndef MR_SINKS_USAGE_H
#define MR_SINKS_USAGE_H

#include <stdbool.h>
#include <stdint.h>

/* Of this process, since it began. */
typedef struct mr_usage {
  double cpu_s;         /* CPU time of all threads so far */
  double rss;           /* resident bytes; -1 if unknown, as the fields below */
  double peak_rss;      /* bytes */
  double read, written; /* bytes read from and written to storage so far */
  double disk_free;     /* bytes free in the file system of path */
} mr_usage_t;

/* Reads /proc/self and the file system of path; cannot fail.  Any thread. */
void mr_usage_read(const char *path, mr_usage_t *out);

/* The first GPU, from NVIDIA's management library.  The library is part of the
   driver, so it is loaded when the program runs.  One thread at a time. */
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
