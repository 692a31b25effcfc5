#include "model/ir/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mr_mem_chunk {
  mr_mem_chunk_t *next;
  size_t pad;
};

/* Most graphs are of a few equations (a loop's step, a fused chain): clearing a large chunk for
   each was most of what compiling a small function took. */
enum { FIRST = 4096, LARGEST = 65536 };

static void grow(mr_mem_t *m, size_t bytes) {
  size_t size = !m->chunk ? FIRST : m->size < LARGEST / 2 ? 2 * m->size : LARGEST;
  if (size < bytes) size = bytes;
  mr_mem_chunk_t *c = calloc(1, sizeof *c + size);
  if (!c) {
    fprintf(stderr, "millrace: no memory for the description of a graph\n");
    abort();
  }
  c->next = m->chunk;
  m->chunk = c;
  m->used = 0;
  m->size = size;
}

void *mr_mem_take(mr_mem_t *m, size_t bytes) {
  bytes = (bytes + 15) & ~(size_t)15;
  if (!m->chunk || m->size - m->used < bytes) grow(m, bytes);
  void *p = (char *)(m->chunk + 1) + m->used;
  m->used += bytes;
  return p;
}

const char *mr_mem_text(mr_mem_t *m, const char *text) {
  return mr_mem_copy(m, text, strlen(text) + 1, 1);
}

void *mr_mem_copy(mr_mem_t *m, const void *src, size_t n, size_t size) {
  if (!n) return NULL;
  return memcpy(mr_mem_take(m, n * size), src, n * size);
}

void mr_mem_fini(mr_mem_t *m) {
  for (mr_mem_chunk_t *c = m->chunk, *next; c; c = next) {
    next = c->next;
    free(c);
  }
  *m = (mr_mem_t){0};
}
