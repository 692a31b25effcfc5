/* The pool of scratch memory that kernels of different runs share: a list of idle blocks under a
   mutex.  Blocks stay between runs, because returning pages to the system and faulting them in
   again costs more than small kernels; the last user frees them. */
#include "model/backends/cpu/kernels.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/machine.h"

typedef struct block {
  _Alignas(64) struct block *next;
  size_t bytes; /* after the head */
} block_t;

static struct {
  pthread_mutex_t lock;
  size_t users;
  block_t *idle; /* the last returned one first */
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

void mr__workspace_hold(void) { pthread_mutex_lock(&pool.lock); }

void mr__workspace_let_go(void) { pthread_mutex_unlock(&pool.lock); }

void mr__workspace_join(void) {
  pthread_mutex_lock(&pool.lock);
  pool.users++;
  pthread_mutex_unlock(&pool.lock);
}

void mr__workspace_leave(void) {
  block_t *left = NULL;
  pthread_mutex_lock(&pool.lock);
  if (--pool.users == 0) {
    left = pool.idle;
    pool.idle = NULL;
  }
  pthread_mutex_unlock(&pool.lock);
  while (left) {
    block_t *next = left->next;
    free(left);
    left = next;
  }
}

/* Removes the smallest idle block that is large enough from the list, else the largest.  NULL: no
   block is idle. */
static block_t *workspace_choose(size_t bytes) {
  block_t **best = NULL;
  for (block_t **at = &pool.idle; *at; at = &(*at)->next) {
    bool fits = (*at)->bytes >= bytes, best_fits = best && (*best)->bytes >= bytes;
    bool smaller = best && (*at)->bytes < (*best)->bytes;
    if (!best || (fits && !best_fits) || (fits == best_fits && smaller == fits)) best = at;
  }
  if (!best) return NULL;
  block_t *b = *best;
  *best = b->next;
  return b;
}

void *mr__workspace_take(size_t bytes) {
  pthread_mutex_lock(&pool.lock);
  block_t *b = workspace_choose(bytes);
  pthread_mutex_unlock(&pool.lock);
  if (b && b->bytes < bytes) {
    free(b);
    b = NULL;
  }
  if (!b) {
    size_t rounded = (bytes + 63) & ~(size_t)63;
    b = mr_pages_alloc(sizeof *b + rounded);
    if (!b) return NULL;
    b->bytes = rounded;
  }
  return b + 1;
}

void mr__workspace_give(void *block) {
  block_t *b = (block_t *)block - 1;
  pthread_mutex_lock(&pool.lock);
  b->next = pool.idle;
  pool.idle = b;
  pthread_mutex_unlock(&pool.lock);
}
