/* What the scheduler needs of a pool beyond buffer.h. */
#ifndef MR_PIPELINE_POOL_H
#define MR_PIPELINE_POOL_H

#include "pipeline/buffer.h"
#include "pipeline/wait.h"

/* The layout of one buffer's memory: its fields, or its bytes, then the arrays of its records. */
typedef struct mr__slot {
  size_t cap, records, words; /* bytes of data; B; n_words */
  int n_fields, label;        /* BATCHES; mr_spec_label */
  bool device; /* the values lie elsewhere: data is where labels are kept on the host */
  struct {
    size_t data, offset; /* byte offsets in the slot; offset 0: an even field */
    bool label;
  } field[MR_FIELDS_MAX];
  size_t key, draw, excluded, word, bytes; /* byte offsets of the arrays; bytes: of the whole
                                              slot */
} mr__slot_t;
/* The layout of a buffer of this spec.  Cannot fail; bytes is a multiple of 64. */
mr__slot_t mr__slot_of(const mr_spec_t *spec);
/* Points b at the slot that begins at `at`. */
void mr__slot_set(mr_buf_t *b, const mr__slot_t *t, char *at);

/* For a pool whose buffers point elsewhere while in use.  released runs in the thread that drops
   the last reference, before the buffer is free again; destroyed runs with mr_pool_destroy. */
typedef struct mr__pool_hooks {
  void (*released)(void *arg, mr_buf_t *b);
  void (*destroyed)(void *arg);
  void *arg;
} mr__pool_hooks_t;
void mr__pool_hook(mr_pool_t *p, const mr__pool_hooks_t *hooks); /* before any thread uses it */
size_t mr__pool_index(const mr_buf_t *b);                        /* index of b in its pool, [0,n) */

/* The pool's memory, [*base,*base+*bytes), which lives as long as the pool.  Returns its file
   descriptor, which stays the pool's, or -1 if the memory is private to this process. */
int mr__pool_memory(const mr_pool_t *p, const char **base, size_t *bytes);

/* Sets the wait objects to wake when a buffer comes back: n pointers, owned by the caller, that
   must live as long as the pool.  Before any thread uses the pool. */
void mr__pool_waiters(mr_pool_t *p, mr_wait_t *const *waiter, int n);

/* A counter that changes with every get and every return, for mr__news. */
uint64_t mr__pool_news(const mr_pool_t *p);

/* True if every buffer is back.  Only for the single thread that gets buffers from the pool:
   another thread's get would race with the count. */
bool mr__pool_whole(const mr_pool_t *p);

/* Returns 1 if a buffer is free now, else 0. */
size_t mr__pool_free(const mr_pool_t *p);

#endif
