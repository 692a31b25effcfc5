/* Blocks of memory that kernels borrow for the time of one run.  Runs that follow one another get
   the same, cache-warm block; runs at the same time get different ones. */
#ifndef MR_MODEL_CPU_WORKSPACE_H
#define MR_MODEL_CPU_WORKSPACE_H

#include <stddef.h>

/* Any thread.  Blocks are kept while anyone is a user, freed when the last one leaves. */
void mr__workspace_join(void);
void mr__workspace_leave(void);

/* At least `bytes`, 64-aligned, contents undefined; NULL if there is no memory.  Give it back. */
void *mr__workspace_take(size_t bytes);
void mr__workspace_give(void *block);

#endif
