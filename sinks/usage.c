/* Reads getrusage, /proc/self and statvfs.  A file that is missing, as in some containers, leaves
   its figures unknown. */
#include "sinks/usage.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/text.h"

/* The number after "NAME:" in a file of /proc, or -1. */
static double proc_number(const char *file, const char *name) {
  char line[256];
  double v = -1;
  FILE *f = fopen(file, "re");
  size_t n = strlen(name);
  while (f && v < 0 && fgets(line, sizeof line, f))
    if (!strncmp(line, name, n) && line[n] == ':') mr_sscanf(line + n + 1, "%lf", &v);
  if (f) fclose(f);
  return v;
}

static double kib_to_bytes(double v) { return v < 0 ? v : v * 1024; }

void mr_usage_read(const char *path, mr_usage_t *out) {
  struct rusage u;
  struct statvfs disk;
  *out = (mr_usage_t){.rss = -1, .peak_rss = -1, .disk_free = -1};
  if (getrusage(RUSAGE_SELF, &u) == 0)
    out->cpu_s = (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
                 (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
  out->rss = kib_to_bytes(proc_number("/proc/self/status", "VmRSS"));
  out->peak_rss = kib_to_bytes(proc_number("/proc/self/status", "VmHWM"));
  out->read = proc_number("/proc/self/io", "read_bytes");
  out->written = proc_number("/proc/self/io", "write_bytes");
  if (statvfs(path, &disk) == 0) out->disk_free = (double)disk.f_bavail * (double)disk.f_frsize;
}
