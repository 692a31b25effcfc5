/* "Did you mean": the nearest known word by edit distance.  Any thread; no call fails. */
#ifndef MR_BASE_SUGGEST_H
#define MR_BASE_SUGGEST_H

#include <stddef.h>

#include "base/decls.h"

MR_BEGIN_DECLS

/* Returns the number of edits (insert, delete, replace, swap of neighbours) that turn a into b.  If
   either is longer than 63 bytes, the length of the longer one. */
size_t mr_edit_distance(const char *a, const char *b);

/* Collects candidates one by one; start from {.word = what the user wrote}. */
typedef struct mr_suggest {
  const char *word, *best; /* both the caller's; best: NULL until a candidate is near enough */
  size_t distance;
} mr_suggest_t;

/* Offers a candidate and keeps the pointer if it is the nearest so far and at most a third of its
   letters (at least one) differ.  Upper case counts as lower case, '_' as '-'. */
void mr_suggest_offer(mr_suggest_t *s, const char *candidate);

/* Writes "; did you mean "batch"?" into the caller's text[0,n), or "" when nothing is near. Returns
   text. */
const char *mr_suggest_text(const mr_suggest_t *s, char *text, size_t n);

/* Writes what is most likely wrong with a path that could not be opened or is of the wrong kind (";
   "~" is not expanded here: write the whole path", "; PATH.gz is there: unpack it first", "; it is
   a folder") into the caller's text[0,n), or "".  Queries the file system.  Returns text. */
const char *mr_path_hint(const char *path, char *text, size_t n);

MR_END_DECLS

#endif
