/* Memory for large arrays. */
#ifndef MR_BASE_PAGES_H
#define MR_BASE_PAGES_H

#include <stddef.h>

/* At least `bytes`, 64-aligned, contents undefined; NULL if there is no memory; free() gives it
   back.  From a few MiB on the system is asked for huge pages: a pass over an array then misses
   the address cache once in 2 MiB instead of once in 4 KiB.  Where it has none, or keeps them from
   programs, nothing else changes. */
void *mr_pages_alloc(size_t bytes);

#endif
