/* Memory: how much the machine and this process's control groups (version 1 or 2) allow, and
   large blocks of it.  Any thread; the calls about limits read a few files of /proc and /sys. */
#ifndef MR_BASE_MACHINE_H
#define MR_BASE_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

/* Returns the bytes of memory that this process may use: the machine's, or the lowest limit of its
   control group and the groups above where that is lower.  A group that cannot be read sets no
   limit. */
size_t mr_machine_memory(void);

/* Returns the bytes of memory that this process may still take: those that the machine has
   available, or those that its control group or a group above leaves where that is less: at least
   1, also where nothing is left.  0 if unknown. */
size_t mr_machine_memory_left(void);

/* Whether this process may still take this many bytes, before it fills them: the system would
   promise what it does not have, and kill the process later.  false: *left is what it may take.
   True without asking for less than 64 MiB, and where the system does not say. */
bool mr_machine_has(size_t bytes, size_t *left);

/* Returns the bytes of memory that the process has now, and sets *peak to the most that it has had;
   both 0 where the system does not say. */
size_t mr_process_memory(size_t *peak);

/* The least over a group ("/a/b") and the groups above, below a mounted hierarchy (root): of
   limits, or of what they leave, at least 1.  Cache that the kernel can drop counts as free.
   Returns SIZE_MAX if none has a limit. */
size_t mr__machine_groups(const char *root, const char *group, int left);

/* mr_machine_memory_left of a file such as /proc/meminfo and of what the groups leave. */
size_t mr__machine_left(const char *meminfo, size_t groups);

/* Returns at least `bytes` of memory, 64-aligned, contents undefined; the caller frees it with
   free(). NULL without memory.  From 4 MiB on it asks the system for huge pages: a pass over an
   array then misses the TLB once in 2 MiB instead of once in 4 KiB.  Where the system has none or
   refuses, nothing else changes. */
void *mr_pages_alloc(size_t bytes);

#endif
