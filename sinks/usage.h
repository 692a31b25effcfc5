/* What this process has used of the machine so far. */
#ifndef MR_SINKS_USAGE_H
#define MR_SINKS_USAGE_H

#include <stdint.h>

typedef struct mr_usage {
  double cpu_s;         /* CPU time of all threads so far */
  double rss;           /* resident bytes, -1: unknown like the rest */
  double peak_rss;      /* bytes */
  double read, written; /* bytes that went to and from storage so far */
  double disk_free;     /* bytes free where path lies */
} mr_usage_t;

/* What stands in /proc/self now, and in the file system of path. */
void mr_usage_read(const char *path, mr_usage_t *out);

#endif
