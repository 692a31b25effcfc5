/* File descriptors held in reserve, so that a checkpoint can be written when connections have taken
   all others. */
#ifndef MR_BASE_FD_RESERVE_H
#define MR_BASE_FD_RESERVE_H

#include <stdbool.h>

/* Fills the reserve up to 8 descriptors, or as far as the system has free ones.  Any thread; does
   not fail. */
void mr_fd_reserve(void);
/* Closes one of the reserve, after a call that found no free descriptor, so that it can be retried.
   Returns false if the reserve is empty.  Any thread. */
bool mr_fd_release(void);

#endif
