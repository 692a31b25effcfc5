/* Shared libraries that are opened at run time, which a program needs neither to start nor for its
   other parts.  They stay open.  Any thread. */
#ifndef MR_BASE_LIBRARY_H
#define MR_BASE_LIBRARY_H

#include <stddef.h>

#include "base/decls.h"

MR_BEGIN_DECLS

/* Opens a file, or a name by the loader's own search, and returns dlopen's handle; path[0,n), n >=
   1, is then the file that was opened.  NULL if it is missing, and path is then "", or if it cannot
   be loaded (a damaged file, or one that needs another library), and path is then the loader's
   reason, without a newline. */
void *mr_library_open(const char *file, char *path, size_t n);

/* A call that a table has a pointer for, at that offset. */
typedef struct mr_library_call {
  const char *name;
  size_t at;
} mr_library_call_t;

/* Sets *table's pointers to lib's calls; call[] ends at a NULL name.  Returns NULL, or the name of
   the first one that lib lacks, which belongs to call[] and whose pointer is then NULL; "" if lib
   is NULL. */
const char *mr_library_calls(void *lib, const mr_library_call_t *call, void *table);

MR_END_DECLS

#endif
