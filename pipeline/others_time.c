/* Reads the work of the processors that this process may use from /proc/stat. */
#include "pipeline/others_time.h"

#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

/* Sums a line "cpuK user nice system idle iowait irq softirq steal ..." without idle and iowait. */
static bool others_time_work_of(const char *line, int *cpu, int64_t *ticks) {
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
    if (others_time_work_of(line, &cpu, &ticks) && cpu < CPU_SETSIZE && CPU_ISSET(cpu, &set))
      sum += ticks;
  }
  fclose(f);
  return sum * (INT64_C(1000000000) / sysconf(_SC_CLK_TCK));
}
