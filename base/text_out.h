/* Text printed into memory.  When memory runs out, open_memstream drops text without setting the
   stream's error flag; this stream reports whether all of the text is there. */
#ifndef MR_BASE_TEXT_OUT_H
#define MR_BASE_TEXT_OUT_H

#include <stddef.h>
#include <stdio.h>

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
