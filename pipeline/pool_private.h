/* What the scheduler needs of a pool beyond buffer.h. */
#ifndef MR_PIPELINE_POOL_PRIVATE_H
#define MR_PIPELINE_POOL_PRIVATE_H

#include "pipeline/buffer.h"
#include "pipeline/wait.h"

/* Sets who is woken when a buffer comes back: n objects, kept by the caller as long as the pool
   lives.  Before any thread uses the pool. */
void mr__pool_waiters(mr_pool_t *p, mr_wait_t *const *waiter, int n);

/* A number that changes with every get and every return. */
uint64_t mr__pool_news(const mr_pool_t *p);

/* Whether every buffer is back.  Only for the one thread that gets buffers from the pool. */
bool mr__pool_whole(const mr_pool_t *p);

/* 1 if a buffer is free now, else 0. */
size_t mr__pool_free(const mr_pool_t *p);

#endif
