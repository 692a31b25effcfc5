/* How often a process has come out of a fork: what threads were started for is compared with it,
   because a child has none of its parent's threads. */
#ifndef MR_BASE_FORKS_H
#define MR_BASE_FORKS_H

#include <stdint.h>

#include "base/decls.h"

MR_BEGIN_DECLS

/* Returns the number of forks between the process that was started as this program and this one: 0
   in it, 1 in its child, 2 in a child of that.  A value that an object keeps differs from it once
   the object has come into a child.  Any thread; never blocks. */
uint32_t mr_forks(void);

MR_END_DECLS

#endif
