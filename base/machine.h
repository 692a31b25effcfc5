/* What the machine gives this process. */
#ifndef MR_BASE_MACHINE_H
#define MR_BASE_MACHINE_H

#include <stddef.h>

/* Bytes of memory that this process may have at most: the machine's, or the limit of its control
   group (version 2) where that is lower. */
size_t mr_machine_memory(void);

#endif
