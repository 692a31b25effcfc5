/* Text for files and people: numbers (number.c), sizes of memory (bytes.c), text from outside made
   safe to show (printable.c), lines that fit a terminal (columns.c), text printed into memory
   (text_out.c).  Any thread may call all of it. */
#ifndef MR_BASE_TEXT_H
#define MR_BASE_TEXT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

/* Numbers, with a decimal point whatever locale the host program has set, so that settings and
   files mean the same everywhere.  setlocale would change the whole host program, so each call uses
   the C locale in its own thread and restores the thread's locale before it returns.

   Each does what the libc function without mr_ does in the C locale, with the same arguments and
   results, and returns what that returns.  Any format with %e, %f, %g or %a must go through these;
   mr_fail and mr_notice do so already. */
double mr_strtod(const char *text, char **end);
int mr_vsnprintf(char *to, size_t n, const char *fmt, va_list ap)
    __attribute__((format(printf, 3, 0)));
int mr_snprintf(char *to, size_t n, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int mr_fprintf(FILE *to, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int mr_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int mr_sscanf(const char *text, const char *fmt, ...) __attribute__((format(scanf, 2, 3)));

/* Returns the bytes of the UTF-8 character at s, in [1,4], and its code point in *code; 1 and
   UINT32_MAX for a byte that begins none.  Text ends with a 0, which is a character of its own. */
size_t mr_utf8_character(const char *s, uint32_t *code);

/* Makes text from files and peers safe to show as part of a line on a terminal; cannot fail. Copies
   text into the caller's to[size], size >= 1, and returns to, which always ends with a 0.  Bytes
   that a terminal would obey or cannot show are written as "\x1b": control characters (C0, newline
   and tab among them, DEL, C1), marks that change the direction of writing, and bytes that are not
   UTF-8.  Text that does not fit is cut between characters. */
char *mr_printable(const char *text, char *to, size_t size);
/* The same for a table's cell: at most `most` characters of text are copied.  Returns to, the
   caller's memory. */
char *mr_printable_cell(const char *text, size_t most, char *to, size_t size);

/* Parses a size of memory as people write it, "2GiB", "1.5GB", "800MiB", "64k" or "1048576" into
   *out bytes: a number with an optional unit K, M, G or T.  The unit alone or followed by iB counts
   in powers of 1024, followed by B in powers of 1000.  MR_ERR_CONFIG, with *out unchanged, if text
   is no such size or lies outside [1,2^62) bytes; `setting` begins the sentence. */
mr_err_t mr_bytes_parse(const char *setting, const char *text, size_t *out, mr_diag_t *diag);

/* Writes "1.50 GiB", "820.3 MiB" or "512 bytes" into the caller's out[24].  Returns out; cannot
   fail. */
const char *mr_bytes_text(size_t bytes, char *out);

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

/* Text printed into memory.  When memory runs out, open_memstream drops text without setting the
   stream's error flag; this stream reports whether all of the text is there. */
typedef struct mr_text_out {
  char *text;
  size_t n, room;
} mr_text_out_t;

/* Returns the stream to print to; mr_text_out_close ends it.  NULL without memory.  t must not move
   until close. */
FILE *mr_text_out_open(mr_text_out_t *t);

/* Closes the stream and returns the text (heap, the caller frees it; NUL-terminated) and its length
   in *n; n may be NULL.  NULL if memory ran out at any time, or if out is NULL after a failed
   open. */
char *mr_text_out_close(mr_text_out_t *t, FILE *out, size_t *n);

#endif
