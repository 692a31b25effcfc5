/* What the scheduler needs of a pool beyond buffer.h. */
#ifndef MR_PIPELINE_POOL_H
#define MR_PIPELINE_POOL_H

#include "pipeline/buffer.h"
#include "pipeline/wait.h"

/* One buffer's memory: its fields, or its bytes, then the arrays of its records. */
typedef struct mr__slot {
  size_t cap, records, words; /* bytes of data, B, n_words */
  int n_fields, label;        /* BATCHES; mr_spec_label */
  struct {
    size_t data, offset; /* where they begin; offset 0: even */
  } field[MR_FIELDS_MAX];
  size_t key, draw, excluded, word, bytes; /* where they begin; of all of it */
} mr__slot_t;
mr__slot_t mr__slot_of(const mr_spec_t *spec);
void mr__slot_set(mr_buf_t *b, const mr__slot_t *t, char *at); /* points b there */

/* For a pool whose buffers point elsewhere while in use: released is called by the thread that lets
   go of the last reference, before the buffer is free again; destroyed with the pool. */
typedef struct mr__pool_hooks {
  void (*released)(void *arg, mr_buf_t *b);
  void (*destroyed)(void *arg);
  void *arg;
} mr__pool_hooks_t;
void mr__pool_hook(mr_pool_t *p, const mr__pool_hooks_t *hooks); /* before any thread uses it */
size_t mr__pool_index(const mr_buf_t *b);                        /* of b in its pool */

/* Its memory, [base,base+bytes), and the descriptor of it, -1: private to this process. */
int mr__pool_memory(const mr_pool_t *p, const char **base, size_t *bytes);

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
