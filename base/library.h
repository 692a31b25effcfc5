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

MR_END_DECLS

#endif
