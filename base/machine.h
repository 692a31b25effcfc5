/* Limits of the memory of the machine and of this process's control groups (version 2).  Any
   thread; calls read a few files of /proc and /sys. */
#ifndef MR_BASE_MACHINE_H
#define MR_BASE_MACHINE_H

#include <stddef.h>

/* Returns the bytes of memory that this process may use: the machine's, or the lowest limit of its
   control group and the groups above where that is lower.  A group that cannot be read sets no
   limit. */
size_t mr_machine_memory(void);

/* Returns the bytes of memory that this process may still take: those that the machine has
   available, or those that its control group or a group above leaves where that is less.  0 if
   unknown. */
size_t mr_machine_memory_left(void);

/* The least over a group ("/a/b") and the groups above, below a mounted hierarchy (root): of
   limits, or of what they leave, at least 1.  Cache that the kernel can drop counts as free.
   Returns SIZE_MAX if none has a limit. */
size_t mr__machine_groups(const char *root, const char *group, int left);

#endif
