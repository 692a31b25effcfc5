/* What the machine says about this process. */
#ifndef MR_SINKS_HOST_H
#define MR_SINKS_HOST_H

#include <stdint.h>

typedef struct mr_host {
  double cpu_s;         /* CPU time of all threads so far */
  double rss;           /* resident bytes, -1: unknown like the rest */
  double peak_rss;      /* bytes */
  double read, written; /* bytes that went to and from storage so far */
  double disk_free;     /* bytes free where path lies */
} mr_host_t;

/* What stands in /proc/self now, and in the file system of path. */
void mr_host_read(const char *path, mr_host_t *out);

#endif
