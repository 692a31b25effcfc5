/* Memory limits from the machine's own counts and the control groups' memory files.  Large blocks
   are aligned to huge pages and advised with madvise; small ones come from malloc. */
#include "base/machine.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- limits ---- */

static const char hierarchy[] = "/sys/fs/cgroup", hierarchy_1[] = "/sys/fs/cgroup/memory";
enum { GROUP = 400 };

/* Whether a file of the system has a number, in its first line or after name, into *v, which is 0
   if not: "max" is none. */
static bool machine_number(const char *path, const char *name, size_t *v) {
  char line[128];
  unsigned long long number = 0;
  size_t n = strlen(name);
  bool found = false;
  FILE *f = fopen(path, "re");
  while (f && !found && fgets(line, sizeof line, f))
    found = !strncmp(line, name, n) && sscanf(line + n, "%llu", &number) == 1;
  if (f) fclose(f);
  *v = (size_t)number;
  return found;
}

static bool group_number(const char *root, const char *group, const char *file, const char *name,
                         size_t *v) {
  char path[1024];
  snprintf(path, sizeof path, "%s%s/%s", root, group, file);
  return machine_number(path, name, v);
}

/* The limit of one group, or what it leaves; SIZE_MAX without a limit.  Version 1 has other names
   for the same, and a number beyond every machine for none. */
static size_t machine_of_group(const char *root, const char *group, int left) {
  size_t limit, used, cache;
  bool first = !group_number(root, group, "memory.max", "", &limit);
  if (first && !group_number(root, group, "memory.limit_in_bytes", "", &limit)) return SIZE_MAX;
  if (limit > SIZE_MAX / 4) return SIZE_MAX;
  if (!left) return limit;
  group_number(root, group, first ? "memory.usage_in_bytes" : "memory.current", "", &used);
  /* Pages of files are given back when memory is short, also those that were read more than once.
   */
  static const char *const pages[][2] = {{"inactive_file ", "active_file "},
                                         {"total_inactive_file ", "total_active_file "}};
  for (int i = 0; i < 2; i++) {
    group_number(root, group, "memory.stat", pages[first][i], &cache);
    used -= cache < used ? cache : used;
  }
  return used < limit ? limit - used : 1;
}

size_t mr__machine_groups(const char *root, const char *group, int left) {
  char at[GROUP];
  size_t least = SIZE_MAX;
  snprintf(at, sizeof at, "%s", group);
  for (;;) { /* the limits of the groups above apply too */
    size_t here = machine_of_group(root, at, left);
    if (here < least) least = here;
    char *cut = strrchr(at, '/');
    if (!cut) return least;
    *cut = 0;
  }
}

/* The process's group: "/user.slice/session-1.scope" from "0::/user.slice/session-1.scope", or of
   version 1 from "9:memory:/user.slice"; "" if it is in none. */
static void own_group(bool first, char group[GROUP]) {
  char line[GROUP + 60];
  group[0] = 0;
  FILE *f = fopen("/proc/self/cgroup", "re");
  if (!f) return;
  while (fgets(line, sizeof line, f)) {
    const char *at = strchr(line, ':'), *path = at ? strchr(at + 1, ':') : NULL;
    if (!path || path[1] != '/') continue;
    bool memory = !strncmp(at, ":memory:", 8) || strstr(at, ",memory:") || strstr(at, ":memory,");
    if (first ? memory : !strncmp(line, "0::", 3)) snprintf(group, GROUP, "%.396s", path + 1);
  }
  fclose(f);
  group[strcspn(group, "\n")] = 0;
}

/* The least over both versions, of which a machine may have both; SIZE_MAX without a limit. */
static size_t least_of_groups(int left) {
  char group[GROUP];
  own_group(false, group);
  size_t second = mr__machine_groups(hierarchy, group, left);
  own_group(true, group);
  size_t first = mr__machine_groups(hierarchy_1, group, left);
  return first < second ? first : second;
}

size_t mr_machine_memory(void) {
  size_t all = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
  size_t limit = least_of_groups(0);
  return limit < all ? limit : all;
}

size_t mr__machine_left(const char *meminfo, size_t groups) {
  size_t kb;
  bool known = machine_number(meminfo, "MemAvailable:", &kb);
  size_t all = known ? (kb ? kb * 1024 : 1) : SIZE_MAX, left = all < groups ? all : groups;
  return left == SIZE_MAX ? 0 : left;
}

size_t mr_machine_memory_left(void) {
  return mr__machine_left("/proc/meminfo", least_of_groups(1));
}

bool mr_machine_has(size_t bytes, size_t *left) {
  const size_t few = (size_t)64 << 20;
  *left = bytes < few ? 0 : mr_machine_memory_left();
  return !*left || bytes <= *left;
}

size_t mr_process_memory(size_t *peak) {
  char line[128];
  unsigned long long kb, now = 0, most = 0;
  FILE *f = fopen("/proc/self/status", "re");
  while (f && fgets(line, sizeof line, f)) {
    if (sscanf(line, "VmRSS: %llu", &kb) == 1) now = kb;
    if (sscanf(line, "VmHWM: %llu", &kb) == 1) most = kb;
  }
  if (f) fclose(f);
  *peak = (size_t)(most > now ? most : now) * 1024;
  return (size_t)now * 1024;
}

/* ---- large blocks ---- */

#define LINE ((size_t)64)
#define HUGE ((size_t)2 << 20)

/* Asks for huge pages for the whole ones alone; the rest keeps small pages, so no memory is
   wasted. */
static void ask_for_huge(char *at, size_t bytes) {
#if defined(MADV_HUGEPAGE)
  (void)madvise(at, bytes / HUGE * HUGE, MADV_HUGEPAGE); /* advice: its refusal is no failure */
#else
  (void)at, (void)bytes;
#endif
}

void *mr_pages_alloc(size_t bytes) {
  if (bytes > SIZE_MAX - 2 * HUGE) return NULL;
  size_t lines = (bytes + 2 * LINE - 1) / LINE * LINE; /* one line to spare, never 0 bytes */
  if (bytes < 2 * HUGE) return aligned_alloc(LINE, lines);
  void *at = NULL;
  if (posix_memalign(&at, HUGE, lines)) return NULL; /* aligned_alloc wants whole huge pages */
  ask_for_huge(at, lines);
  return at;
}
