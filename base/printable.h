/* Text that came from a file or a peer, as a terminal may show it. */
#ifndef MR_BASE_PRINTABLE_H
#define MR_BASE_PRINTABLE_H

#include <stddef.h>

/* Copies text into to[size], size >= 1, and returns to, which always ends with a 0.  Bytes that a
   terminal would obey, or that no terminal can show, become "\x1b": control characters (C0 but the
   newline and the tab of a sentence that keeps them, DEL, C1), marks that reverse the direction of
   writing, and what is not UTF-8.  What does not fit is left out from a whole character on. */
char *mr_printable(const char *text, char *to, size_t size);
/* The same with newline and tab escaped too, and at most `most` characters of text: a cell. */
char *mr_printable_cell(const char *text, size_t most, char *to, size_t size);

#endif
