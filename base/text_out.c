/* Text printed into memory through a stream whose writes append to a growing block (fopencookie).
   It exists because open_memstream drops text silently when memory runs out; this stream then has
   its error flag set, and close returns NULL. */
#include "base/text.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

enum { FIRST_ROOM = 512 };

/* Without memory it writes nothing, which sets the stream's error flag. */
static ssize_t text_out_append(void *to, const char *data, size_t n) {
  mr_text_out_t *t = to;
  size_t room = t->room ? t->room : FIRST_ROOM;
  while (room < t->n + n + 1) room *= 2;
  char *more = room > t->room ? realloc(t->text, room) : t->text;
  if (!more) return 0;
  t->text = more, t->room = room;
  memcpy(t->text + t->n, data, n);
  t->n += n;
  assert(t->n < t->room);
  t->text[t->n] = 0;
  return (ssize_t)n;
}

FILE *mr_text_out_open(mr_text_out_t *t) {
  *t = (mr_text_out_t){0};
  return fopencookie(t, "w", (cookie_io_functions_t){.write = text_out_append});
}

char *mr_text_out_close(mr_text_out_t *t, FILE *out, size_t *n) {
  bool whole = out && !ferror(out);
  if (out && fclose(out)) whole = false;
  if (whole && !t->text) whole = (t->text = calloc(1, 1)) != NULL; /* nothing was printed */
  if (!whole) free(t->text), t->text = NULL, t->n = 0;
  if (n) *n = t->n;
  return t->text;
}
