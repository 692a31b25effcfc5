/* A bump allocator: many small objects that die together. */
#ifndef MR_MODEL_IR_MEM_H
#define MR_MODEL_IR_MEM_H

#include <stddef.h>

#include "base/decls.h"

MR_BEGIN_DECLS

typedef struct mr_mem_chunk mr_mem_chunk_t;

typedef struct mr_mem {
  mr_mem_chunk_t *chunk; /* newest first; zero-initialise */
  size_t used, size;     /* of the newest chunk */
} mr_mem_t;

/* bytes zeroed bytes, 16-aligned, alive until mr_mem_fini.  The program aborts where the system
   has no memory for descriptions of a graph: nothing useful could follow. */
void *mr_mem_take(mr_mem_t *m, size_t bytes);
const char *mr_mem_text(mr_mem_t *m, const char *text); /* a copy of text */
/* A copy of n*size bytes; NULL only if n is 0. */
void *mr_mem_copy(mr_mem_t *m, const void *src, size_t n, size_t size);
void mr_mem_fini(mr_mem_t *m);

MR_END_DECLS

#endif
