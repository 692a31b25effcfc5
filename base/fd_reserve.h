/* Descriptors kept in reserve, so that a checkpoint can be written when connections have taken all
   others. */
#ifndef MR_BASE_FD_RESERVE_H
#define MR_BASE_FD_RESERVE_H

#include <stdbool.h>

/* Takes as many of 8 as are missing and free.  Any thread; does not fail. */
void mr_fd_reserve(void);
/* Gives one back to the system, after a call that found none; false: none is left.  Any thread. */
bool mr_fd_release(void);

#endif
