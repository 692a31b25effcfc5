/* Files that come with the program: the folder share/ of the source tree, which is installed as
   share/millrace. */
#ifndef MR_BASE_SHARE_H
#define MR_BASE_SHARE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/decls.h"

MR_BEGIN_DECLS

/* Writes the path of such a file, "cuda/README.md", to path[0,n).  Returns whether the file is
   there; path is undefined if not.  MILLRACE_SHARE names the folder; without it, it is
   share/millrace beside the file that holds this code (a program, or libmillrace.so), as in a
   build, or beside that file's folder, as installed.  Any thread; reads folders. */
bool mr_share_find(const char *name, char *path, size_t n);

MR_END_DECLS

#endif
