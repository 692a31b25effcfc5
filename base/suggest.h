/* "Did you mean": the nearest known word by edit distance. */
#ifndef MR_BASE_SUGGEST_H
#define MR_BASE_SUGGEST_H

#include <stddef.h>

#include "base/decls.h"

MR_BEGIN_DECLS

/* Edits (insert, delete, replace, swap of neighbours) that turn a into b; words longer than 63
   bytes are as far apart as the longer one is long. */
size_t mr_edit_distance(const char *a, const char *b);

/* Collects candidates one by one: start from {.word = what the person wrote}. */
typedef struct mr_suggest {
  const char *word, *best; /* best: NULL until a candidate is near enough */
  size_t distance;
} mr_suggest_t;

/* Offers a candidate; keeps the pointer if it is the nearest so far and at most a third of its
   letters (at least one) differ.  Upper case is as lower case, '_' as '-'. */
void mr_suggest_offer(mr_suggest_t *s, const char *candidate);

/* "; did you mean "batch"?" into text[0,n), or "" when nothing is near.  Returns text. */
const char *mr_suggest_text(const mr_suggest_t *s, char *text, size_t n);

/* What is most likely wrong with a path that could not be opened or is of another kind than wanted
   ("; ~ is not expanded here, write the whole path", "; PATH.gz is there: unpack it first", "; it
   is a folder"), into text[0,n), or "".  Looks at the file system.  Returns text. */
const char *mr_path_hint(const char *path, char *text, size_t n);

MR_END_DECLS

#endif
