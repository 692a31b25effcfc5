/* Growing files of lines, read from the place that matters: from a byte to the beginning of the
   next line. */
#include "base/lines.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/xio.h"

enum { PIECES = 64, NEAR = 1 << 16, PIECE = 1 << 20 };

int64_t mr_lines_seek(FILE *f, int64_t at) {
  if (fseeko(f, at > 0 ? (off_t)at - 1 : 0, SEEK_SET) < 0) return -1;
  if (at > 0) mr_skip_line(f);
  return ferror(f) ? -1 : (int64_t)ftello(f);
}

static int64_t lines_size(FILE *f) { return fseeko(f, 0, SEEK_END) < 0 ? -1 : (int64_t)ftello(f); }

/* The number of the first line from byte `at` on that has one and begins before `end`, and where
   that line ends in *after; INT64_MAX: none does; -1: cannot be read. */
static int64_t next_number(FILE *f, int64_t at, int64_t end, mr_lines_number_fn *number,
                           const void *arg, char **line, size_t *room, int64_t *after) {
  int64_t from = mr_lines_seek(f, at);
  while (from >= 0 && from < end) {
    ssize_t n = mr_read_line(f, MR_LINE_MOST, line, room);
    if (n < 0 && !feof(f)) return -1;
    if (n < 0 || (n && (*line)[n - 1] != '\n')) break;
    int64_t k = n ? number(arg, *line, (size_t)n) : -1;
    from = *after = (int64_t)ftello(f);
    if (k >= 0) return k;
  }
  return from < 0 ? -1 : INT64_MAX;
}

/* The lines before byte lo have numbers of at most `last`, those from hi on larger ones.  What is
   looked for is mostly near the end, so the first steps go back from there, each twice as far. */
int64_t mr_lines_above(FILE *f, int64_t last, mr_lines_number_fn *number, const void *arg) {
  char *line = NULL;
  size_t room = 0;
  int64_t size = lines_size(f), lo = 0, hi = size, after = 0, k = 0;
  bool below = false; /* lo is known */
  for (int64_t back = NEAR; lo < hi && k >= 0; back = back < size / 2 ? 2 * back : size) {
    int64_t mid = below ? lo + (hi - lo) / 2 : back < size ? size - back : 0;
    k = next_number(f, mid, hi, number, arg, &line, &room, &after);
    if (k > last)
      hi = mid < hi ? mid : hi;
    else if (k >= 0)
      lo = after, below = true;
  }
  bool failed = size < 0 || k < 0;
  free(line);
  return failed ? -1 : lo;
}

/* The last line in text[0,n) that begins with start, and not at byte 0; NULL: none. */
static const char *last_in(const char *text, size_t n, const char *start) {
  size_t length = strlen(start);
  for (const char *newline; n && (newline = memrchr(text, '\n', n));) {
    size_t behind = n - (size_t)(newline + 1 - text);
    if (behind >= length && !memcmp(newline + 1, start, length)) return newline + 1;
    n = (size_t)(newline - text);
  }
  return NULL;
}

/* Pieces overlap, so that a beginning that one cuts is whole in the next. */
int64_t mr_lines_last(FILE *f, int64_t before, int64_t most, const char *start) {
  static const int64_t overlap = 64;
  char *piece = malloc(PIECE);
  int64_t found = -1, first = before > most ? before - most : 0;
  assert(strlen(start) < (size_t)overlap);
  for (int64_t to = before; piece && found < 0 && to > first;) {
    int64_t from = to - PIECE > first ? to - PIECE : first;
    size_t n = fseeko(f, (off_t)from, SEEK_SET) < 0 ? 0 : fread(piece, 1, (size_t)(to - from), f);
    const char *line = last_in(piece, n, start);
    if (line) found = from + (line - piece);
    if (!from && !line && n >= strlen(start) && !memcmp(piece, start, strlen(start))) found = 0;
    to = from == first ? first : from + overlap;
  }
  free(piece);
  return found;
}

/* Appends the whole lines of f that lie in [from,to) to text. */
static size_t take_lines(FILE *f, int64_t from, int64_t to, char *text) {
  int64_t at = mr_lines_seek(f, from);
  if (at < 0 || at >= to) return 0;
  size_t n = fread(text, 1, (size_t)(to - at), f);
  while (n && text[n - 1] != '\n') n--;
  return n;
}

mr_err_t mr_lines_sample(const char *path, size_t most, char **text, size_t *n, bool *all,
                         mr_diag_t *diag) {
  FILE *f = mr_open_regular(path);
  *text = NULL, *n = 0, *all = true;
  if (!f) return mr_fail(diag, MR_ERR_IO, "%s: cannot be read: %s", path, mr_open_reason(errno));
  int64_t size = lines_size(f), each = (int64_t)(most / PIECES);
  *all = size <= (int64_t)most;
  char *out = size < 0 ? NULL : malloc((*all ? (size_t)size : most) + 1);
  if (out && *all) *n = take_lines(f, 0, size, out);
  for (int64_t i = 0; out && !*all && i < PIECES; i++) {
    int64_t from = (size - each) / (PIECES - 1) * i;
    if (i == PIECES - 1) from = size - each;
    *n += take_lines(f, from, from + each, out + *n);
  }
  bool failed = size < 0 || ferror(f);
  fclose(f);
  if (failed || !out) {
    free(out);
    *n = 0;
    return failed ? mr_fail(diag, MR_ERR_IO, "%s: cannot be read", path)
                  : mr_no_memory(diag, "the lines of %s", path);
  }
  out[*n] = 0;
  *text = out;
  return MR_OK;
}
