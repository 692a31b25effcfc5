/* Lines that fit a terminal. */
#ifndef MR_BASE_COLUMNS_H
#define MR_BASE_COLUMNS_H

#include <stddef.h>
#include <stdio.h>

/* Returns the columns of the terminal at a descriptor, at least 20.  0 if it is no terminal or does
   not report its width. */
int mr_columns(int fd);

/* Returns the bytes, in [0,strlen(text)], of the longest prefix of text that fits in the given
   columns and ends before a space or at the end of text.  If the first word alone is longer, as
   much of it as fits.  A character of several bytes counts as one column and is never split. */
size_t mr_fitting(const char *text, int columns);

/* Writes text and a newline, in lines of at most the given columns (0: one line, however long),
   broken at spaces.  Lines after the first begin with indent spaces, indent < columns - 10. */
void mr_put_wrapped(FILE *to, const char *text, int columns, int indent);

#endif
