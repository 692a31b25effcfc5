/* The memory of a graph: chunks that double in size and are freed together.  When malloc fails, an
   allocator continues in a reserve that all share and notes the failure, so that the hundreds of
   small allocations of a transform need no check of their own; the graph fails as a whole. */
#include "model/ir/mem.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct mr_mem_chunk {
  mr_mem_chunk_t *next;
  size_t from_reserve;
};

/* Most graphs have a few equations (a loop's step, a fused chain): clearing a large chunk for each
   took most of the time of compiling a small function. */
enum { FIRST = 4096, LARGEST = 65536 };

/* Memory for allocators that have failed: enough for what runs until the failure is checked, which
   is a rule or a transform with lists no longer than the graph.  Untouched pages cost nothing.  The
   reserve is empty again once its last user has ended. */
enum { RESERVE = 32 << 20 };
static _Alignas(64) char reserve[RESERVE];
static size_t reserve_used;
static int reserve_users;
static pthread_mutex_t reserve_lock = PTHREAD_MUTEX_INITIALIZER;

static mr_mem_chunk_t *take_reserve(size_t bytes) {
  mr_mem_chunk_t *c = NULL;
  bytes = (bytes + 63) & ~(size_t)63;
  pthread_mutex_lock(&reserve_lock);
  if (bytes <= RESERVE - reserve_used) {
    c = (mr_mem_chunk_t *)(reserve + reserve_used);
    c->from_reserve = bytes;
    reserve_used += bytes;
    reserve_users++;
  }
  pthread_mutex_unlock(&reserve_lock);
  return c;
}

static void give_reserve(void) {
  pthread_mutex_lock(&reserve_lock);
  if (!--reserve_users) {
    memset(reserve, 0, reserve_used);
    reserve_used = 0;
  }
  pthread_mutex_unlock(&reserve_lock);
}

static void mem_fail(mr_mem_t *m) {
  m->failed = true;
  if (m->diag) mr_no_memory(m->diag, "the description of a graph");
}

static mr_mem_chunk_t *mem_grow(mr_mem_t *m, size_t bytes) {
  size_t size = !m->chunk ? FIRST : m->size < LARGEST / 2 ? 2 * m->size : LARGEST;
  if (size < bytes) size = bytes;
  mr_mem_chunk_t *c = m->failed ? NULL : calloc(1, sizeof *c + size);
  if (!c) {
    mem_fail(m);
    c = take_reserve(sizeof *c + (size = bytes));
    if (!c) return NULL;
  }
  c->next = m->chunk;
  m->chunk = c;
  m->used = 0;
  m->size = size;
  return c;
}

void *mr_mem_reserve(size_t bytes) {
  mr_mem_chunk_t *c = take_reserve(sizeof *c + bytes);
  return c ? c + 1 : NULL;
}

void mr_mem_give_reserve(void) { give_reserve(); }

void *mr_mem_take(mr_mem_t *m, size_t bytes) {
  bytes = (bytes + 15) & ~(size_t)15;
  if ((!m->chunk || m->size - m->used < bytes) && !mem_grow(m, bytes)) return NULL;
  void *p = (char *)(m->chunk + 1) + m->used;
  m->used += bytes;
  return p;
}

const char *mr_mem_text(mr_mem_t *m, const char *text) {
  return mr_mem_copy(m, text, strlen(text) + 1, 1);
}

void *mr_mem_copy(mr_mem_t *m, const void *src, size_t n, size_t size) {
  void *to = n ? mr_mem_take(m, n * size) : NULL;
  return to ? memcpy(to, src, n * size) : NULL;
}

void mr_mem_fini(mr_mem_t *m) {
  for (mr_mem_chunk_t *c = m->chunk, *next; c; c = next) {
    next = c->next;
    if (c->from_reserve)
      give_reserve();
    else
      free(c);
  }
  *m = (mr_mem_t){0};
}
