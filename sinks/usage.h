/* Resources that this process has used so far. */
#ifndef MR_SINKS_USAGE_H
#define MR_SINKS_USAGE_H

#include <stdint.h>

typedef struct mr_usage {
  double cpu_s;         /* CPU time of all threads so far */
  double rss;           /* resident bytes; -1 if unknown, as the fields below */
  double peak_rss;      /* bytes */
  double read, written; /* bytes read from and written to storage so far */
  double disk_free;     /* bytes free in the file system of path */
} mr_usage_t;

/* Reads /proc/self and the file system of path; cannot fail.  Any thread. */
void mr_usage_read(const char *path, mr_usage_t *out);

#endif
