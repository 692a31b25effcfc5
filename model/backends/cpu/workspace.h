/* Blocks of memory that kernels borrow for one run.  Runs one after the other get the same block,
   still in cache; runs at the same time get different ones. */
#ifndef MR_MODEL_CPU_WORKSPACE_H
#define MR_MODEL_CPU_WORKSPACE_H

#include <stddef.h>

/* Join and leave the users, from any thread; each join needs one leave.  Idle blocks are kept
   while there are users, and freed when the last one leaves. */
void mr__workspace_join(void);
void mr__workspace_leave(void);

/* Lends a block of at least `bytes`, 64-aligned, contents undefined; NULL without memory.  The
   caller returns it with mr__workspace_give.  Any thread. */
void *mr__workspace_take(size_t bytes);
void mr__workspace_give(void *block);

#endif
