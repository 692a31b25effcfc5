/* Which files are code that may be loaded. */
#ifndef MR_PLUGINS_FILE_H
#define MR_PLUGINS_FILE_H

#include <limits.h>
#include <sys/stat.h>

#include "base/err.h"

/* Opens the file that symbolic links of `file` lead to, if only root and the user of this process
   can have written it or put it there; its absolute path goes into real[0,PATH_MAX), what
   it is into *st.  Returns the descriptor, the caller's to close, or < 0: MR_ERR_IO if it cannot be
   opened, MR_ERR_UNAVAILABLE if it is not to be trusted.  The sentence says which file or folder
   and why.  A pipe or device is not opened. */
int mr__plugin_open(const char *file, char *real, struct stat *st, mr_diag_t *diag);

#endif
