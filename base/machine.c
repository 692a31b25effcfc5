/* Memory limits from the machine's page count and the control group's memory.max files. */
#include "base/machine.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The limit of one group; 0 if it has none. */
static size_t machine_limit_of(const char *group) {
  char path[512];
  unsigned long long bytes = 0;
  snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", group);
  FILE *f = fopen(path, "re");
  if (!f) return 0;
  if (fscanf(f, "%llu", &bytes) != 1) bytes = 0; /* "max" */
  fclose(f);
  return (size_t)bytes;
}

/* The process's group: "/user.slice/session-1.scope" from "0::/user.slice/session-1.scope". */
static void own_group(char group[400]) {
  char line[420];
  group[0] = 0;
  FILE *f = fopen("/proc/self/cgroup", "re");
  if (!f) return;
  while (fgets(line, sizeof line, f))
    if (!strncmp(line, "0::/", 4)) snprintf(group, 400, "%.396s", line + 3);
  fclose(f);
  group[strcspn(group, "\n")] = 0;
}

size_t mr_machine_memory(void) {
  char group[400];
  size_t least = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
  own_group(group);
  for (;;) { /* the limits of the groups above apply too */
    size_t limit = machine_limit_of(group);
    if (limit && limit < least) least = limit;
    char *cut = strrchr(group, '/');
    if (!cut) return least;
    *cut = 0;
  }
}
