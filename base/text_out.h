/* Text printed into memory.  Unlike open_memstream, which drops what it has no memory for without
   setting the stream's error flag, it tells whether all of the text is there. */
#ifndef MR_BASE_TEXT_OUT_H
#define MR_BASE_TEXT_OUT_H

#include <stddef.h>
#include <stdio.h>

typedef struct mr_text_out {
  char *text;
  size_t n, room;
} mr_text_out_t;

/* The stream to print to, until close; NULL without memory.  t stays where it is until then. */
FILE *mr_text_out_open(mr_text_out_t *t);

/* Closes it.  The text (heap, the caller frees it; NUL-terminated) and its length in *n, which may
   be NULL.  NULL if memory ran out at any time; out NULL (a failed open) is fine. */
char *mr_text_out_close(mr_text_out_t *t, FILE *out, size_t *n);

#endif
