/* A bump allocator: many small objects that are freed together.

   Callers need not check each pointer.  When the system has no memory, the allocator fails for
   good: it sets failed, writes the sentence into diag and continues with memory of a process-wide
   reserve, so that the work under way reaches the next point where its failure is checked. */
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
  mr_diag_t *diag;       /* takes the failure, MR_ERR_NOMEM; NULL: only failed shows it */
  bool failed;           /* new chunks now come from the reserve */
} mr_mem_t;

/* Each returns memory that belongs to m and lives until mr_mem_fini: take that many zeroed bytes,
   16-aligned; text a copy of text; copy a copy of n*size bytes, NULL if n is 0.  Otherwise NULL
   only if the allocator has failed and the reserve, 32 MiB for the whole process, is used up too; a
   caller that takes more than a few MiB at once must check. */
void *mr_mem_take(mr_mem_t *m, size_t bytes);
const char *mr_mem_text(mr_mem_t *m, const char *text);
void *mr_mem_copy(mr_mem_t *m, const void *src, size_t n, size_t size);
void mr_mem_fini(mr_mem_t *m); /* frees everything; *m is zeroed */

/* Returns that many zeroed bytes of the reserve, or NULL if too few are left.  Each success is
   released by one call of mr_mem_give_reserve; the bytes live until then.  Any thread; takes a lock
   for a moment. */
void *mr_mem_reserve(size_t bytes);
void mr_mem_give_reserve(void);

MR_END_DECLS

#endif
