/* A bump allocator: many small objects that die together.

   Callers do not look at each pointer.  Where the system has no memory, the allocator fails once
   and for all: it says so (failed, diag) and goes on giving memory from a reserve of the process,
   so that the work under way ends where its own failure is next looked at. */
#ifndef MR_MODEL_IR_MEM_H
#define MR_MODEL_IR_MEM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/decls.h"
#include "base/err.h"

MR_BEGIN_DECLS

typedef struct mr_mem_chunk mr_mem_chunk_t;

/* Zero-initialise but for diag.  One thread at a time. */
typedef struct mr_mem {
  mr_mem_chunk_t *chunk; /* newest first */
  size_t used, size;     /* of the newest chunk */
  mr_diag_t *diag;       /* where the failure is told, MR_ERR_NOMEM; NULL: only in failed */
  bool failed;           /* what was given since is of the reserve */
} mr_mem_t;

/* bytes zeroed bytes, 16-aligned, alive until mr_mem_fini.  NULL only if the allocator has failed
   and the reserve, 32 MiB for all of the process, is used up too: who takes more than a few MiB at
   once looks. */
void *mr_mem_take(mr_mem_t *m, size_t bytes);
const char *mr_mem_text(mr_mem_t *m, const char *text); /* a copy of text; as mr_mem_take */
/* A copy of n*size bytes; NULL if n is 0, or as mr_mem_take. */
void *mr_mem_copy(mr_mem_t *m, const void *src, size_t n, size_t size);
void mr_mem_fini(mr_mem_t *m); /* gives all back; *m is zeroed */

/* bytes zeroed bytes of the reserve alone, or NULL; each is given back by one call of
   mr_mem_give_reserve.  Threads may share it. */
void *mr_mem_reserve(size_t bytes);
void mr_mem_give_reserve(void);

MR_END_DECLS

#endif
