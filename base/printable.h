/* Makes text from files and peers safe to show on a terminal.  Any thread; no call fails. */
#ifndef MR_BASE_PRINTABLE_H
#define MR_BASE_PRINTABLE_H

#include <stddef.h>

/* Copies text into the caller's to[size], size >= 1, and returns to, which always ends with a 0.
   Bytes that a terminal would obey or cannot show are written as "\x1b": control characters (C0
   except newline and tab, DEL, C1), marks that change the direction of writing, and bytes that are
   not UTF-8.  Text that does not fit is cut between characters. */
char *mr_printable(const char *text, char *to, size_t size);
/* The same for a table's cell: newline and tab are escaped too, and at most `most` characters of
   text are copied.  Returns to, the caller's memory. */
char *mr_printable_cell(const char *text, size_t most, char *to, size_t size);

#endif
