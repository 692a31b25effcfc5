/* Memory of the objects of a remote source, of which there may be a hundred million: pieces that
   never move, in a few large blocks that lie in files beyond the memory of base/spill.h. */
#ifndef MR_LOADERS_REMOTE_REMOTE_PIECES_H
#define MR_LOADERS_REMOTE_REMOTE_PIECES_H

#include <stddef.h>

#include "base/spill.h"

typedef struct mr__pieces {
  mr_spill_t *block; /* [n] heap; pieces are taken from the last one */
  size_t n, cap, used;
} mr__pieces_t; /* zeros: empty */

/* Returns a piece of at least `bytes`, aligned for any type; it lives until mr__pieces_free.  NULL
   without memory.  One thread at a time. */
void *mr__pieces_take(mr__pieces_t *r, size_t bytes, mr_diag_t *diag);

void mr__pieces_free(mr__pieces_t *r); /* zeros are fine */

#endif
