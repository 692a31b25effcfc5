/* Notes of arrays for memory_profile.h: where their memory was taken, and for which values.
   Implemented in memory_profile.c.  Any thread. */
#ifndef MR_MODEL_CALL_ARRAY_NOTE_H
#define MR_MODEL_CALL_ARRAY_NOTE_H

#include <stddef.h>

#include "model/ir/aval.h"

typedef struct mr__note mr__note_t;

/* A note of n bytes taken by the caller's caller; NULL: nothing is noted now, or no memory for
   it. */
mr__note_t *mr__note_take(size_t n);
/* What the bytes hold; for a result the name of its jitted function, else NULL.  NULL n: nothing.
 */
void mr__note_say(mr__note_t *n, const mr_aval_t *aval, const char *jitted);
void mr__note_drop(mr__note_t *n); /* NULL is fine */

#endif
