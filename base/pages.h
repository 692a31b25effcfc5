/* Memory for large arrays. */
#ifndef MR_BASE_PAGES_H
#define MR_BASE_PAGES_H

#include <stddef.h>

/* Returns at least `bytes` of memory, 64-aligned, contents undefined; the caller frees it with
   free(). NULL without memory.  From 4 MiB on it asks the system for huge pages: a pass over an
   array then misses the TLB once in 2 MiB instead of once in 4 KiB.  Where the system has none or
   refuses, nothing else changes. */
void *mr_pages_alloc(size_t bytes);

#endif
