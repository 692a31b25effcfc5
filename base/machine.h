/* Limits of the machine that this process runs on. */
#ifndef MR_BASE_MACHINE_H
#define MR_BASE_MACHINE_H

#include <stddef.h>

/* Returns the bytes of memory that this process may use: the machine's, or the lowest limit of its
   control group (version 2) and the groups above where that is lower.  A group that cannot be read
   sets no limit.  Reads a few files of /proc and /sys. */
size_t mr_machine_memory(void);

#endif
