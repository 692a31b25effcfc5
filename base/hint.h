/* Words of other frameworks, and what to write for them here.

   A row stands with what it leads to: a stage, a setting, a choice of a setting, a command.  What a
   row suggests is accepted as it is written and means the same: tests/apps/test_hints.c walks every
   table.  Any thread; no call fails. */
#ifndef MR_BASE_HINT_H
#define MR_BASE_HINT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/decls.h"

MR_BEGIN_DECLS

enum { MR_HINT_MAX = 320 /* bytes for the text of any hint */ };

/* A row of a table that ends at {0}. */
typedef struct mr_hint {
  const char *words; /* "take head": in lower case without '-' and '_', separated by blanks; they
                        all mean the same */
  const char *write; /* what to write, complete: "limit 1000".  NULL: nothing, or what the table
                        belongs to */
  const char *why;   /* a sentence without a period that comes first; NULL: the usual one of the
                        table's reader.  A `write` that it contains is not printed again */
} mr_hint_t;

/* Returns whether word, in any case and with any '-' and '_', is one of words, which may be NULL.
   False for "" and for a word longer than 63 bytes. */
bool mr_hint_has(const char *words, const char *word);

/* Returns the row that has the word, which lives as long as rows; NULL without one, or if rows is
   NULL. */
const mr_hint_t *mr_hint_find(const mr_hint_t *rows, const char *word);

/* Writes "; WHY: WRITE" of a row into the caller's text[0,n), with `usual` where the row has no
   sentence of its own; "; write WRITE" if that is NULL too.  Returns text. */
const char *mr_hint_text(const mr_hint_t *row, const char *usual, char *text, size_t n);

/* Other frameworks' words for number types: "float16" is "f16".  For mr_opt_t.values. */
extern const mr_hint_t mr_dtype_hints[];

MR_END_DECLS

#endif
