/* Condition variables on CLOCK_MONOTONIC; processor time from /proc: a thread's own and its delay,
   and that of all programs. */
#include "base/clock.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"

enum { FILE_MAX = 4096 };

/* ---- condition variables ---- */

void mr_cond_init(pthread_cond_t *c) {
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(c, &attr);
  pthread_condattr_destroy(&attr);
}

bool mr_cond_wait_until(pthread_cond_t *c, pthread_mutex_t *lock, int64_t until_ns) {
  struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
  return pthread_cond_timedwait(c, lock, &until) == 0;
}

/* ---- processor time of a thread ---- */

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

/* ---- processor time of all programs ---- */

/* Sums a line "cpuK user nice system idle iowait irq softirq steal ..." without idle and iowait. */
static bool sum_worked_ticks(const char *line, int *cpu, int64_t *ticks) {
  int64_t v[8] = {0};
  int n = sscanf(line,
                 "cpu%d %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64
                 " %" SCNd64 " %" SCNd64,
                 cpu, &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7]);
  *ticks = v[0] + v[1] + v[2] + v[5] + v[6] + v[7];
  return n >= 5 && *cpu >= 0;
}

int64_t mr_processors_ns(void) {
  char line[512];
  cpu_set_t set;
  int64_t sum = 0, ticks;
  int cpu;
  FILE *f = fopen("/proc/stat", "re");
  if (!f) return 0;
  bool any = sched_getaffinity(0, sizeof set, &set) == 0;
  while (any && fgets(line, sizeof line, f)) {
    if (line[0] != 'c') break; /* the processors' lines come first */
    if (line[3] == ' ') continue;
    if (sum_worked_ticks(line, &cpu, &ticks) && cpu < CPU_SETSIZE && CPU_ISSET(cpu, &set))
      sum += ticks;
  }
  fclose(f);
  return sum * (INT64_C(1000000000) / sysconf(_SC_CLK_TCK));
}
