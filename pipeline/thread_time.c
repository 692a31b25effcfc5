/* A thread's processor time and delay, from /proc/self/task/TID. */
#include "pipeline/thread_time.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/number.h"

enum { FILE_MAX = 4096 };

static bool read_of(int tid, const char *file, char *text) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%d/%s", tid, file);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  ssize_t n = read(fd, text, FILE_MAX - 1);
  close(fd);
  text[n > 0 ? n : 0] = 0;
  return n > 0;
}

static double number_of(const char *text, const char *name) {
  const char *at = strstr(text, name);
  return at ? mr_strtod(at + strlen(name), NULL) : 0;
}

/* A thread waits for a processor after sleeping and after being preempted.  The kernel adds up both
   waits but counts the occasions of each, so the delay is divided in proportion. */
mr_thread_time_t mr_thread_time(int tid) {
  char text[FILE_MAX];
  mr_thread_time_t t = {0};
  int64_t delay;
  if (!read_of(tid, "schedstat", text)) return t;
  if (sscanf(text, "%" SCNd64 " %" SCNd64, &t.cpu_ns, &delay) != 2) return (mr_thread_time_t){0};
  if (!read_of(tid, "status", text)) return t;
  double aside = number_of(text, "\nnonvoluntary_ctxt_switches:");
  double slept = number_of(text, "\nvoluntary_ctxt_switches:");
  if (aside > 0) t.delay_ns = (int64_t)((double)delay * aside / (aside + slept));
  return t;
}
