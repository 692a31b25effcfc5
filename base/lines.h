/* Files of lines that a program appends to for as long as it runs: they grow without limit, so no
   reader takes more of them than it needs, and none holds one in memory.

   Any thread; calls block on the file system. */
#ifndef MR_BASE_LINES_H
#define MR_BASE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/decls.h"
#include "base/err.h"

MR_BEGIN_DECLS

/* Bytes at the end of a file that hold all that is asked of its newest lines. */
enum { MR_LINES_TAIL = 16 << 20 };

/* Moves f to the first line that begins at byte `at` or later; to the end if none does.  Returns
   the byte where it is; -1 with errno if f cannot be read.  at in [0,...). */
int64_t mr_lines_seek(FILE *f, int64_t at);

/* The number that orders line[0,n), which ends with a newline; below 0: it has none. */
typedef int64_t mr_lines_number_fn(const void *arg, const char *line, size_t n);

/* Finds where the lines of f whose number is above `last` begin, in a file whose numbers do not
   decrease; lines without a number right before them, or a last line without its newline, count as
   lines above.  Bisects: a few dozen reads, whatever the length.  Returns the byte; -1 with errno
   if f cannot be read or without memory. */
int64_t mr_lines_above(FILE *f, int64_t last, mr_lines_number_fn *number, const void *arg);

/* Finds the last line that begins with `start` among those that begin in [before-most,before), byte
   `before` being a line's beginning.  Returns its byte; -1 without one, or if f cannot be read, or
   without memory. */
int64_t mr_lines_last(FILE *f, int64_t before, int64_t most, const char *start);

/* Reads a regular file's whole lines into *text (heap, the caller frees it; a NUL follows), *n
   bytes: all of them if the file has at most `most` bytes; else those that lie in equal pieces all
   over the file, its first and its last lines among them.  *all says which.  MR_ERR_IO,
   MR_ERR_NOMEM, with the path in the sentence; *text is NULL. */
mr_err_t mr_lines_sample(const char *path, size_t most, char **text, size_t *n, bool *all,
                         mr_diag_t *diag);

MR_END_DECLS

#endif
