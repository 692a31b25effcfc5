/* All results of a small permutation at once.

   The block has 16 bits even for ten records, so each single result takes thousands of cipher
   steps. Here many walks run side by side, each in one byte of a vector, from one of MARKS values
   to the next one (index_shuffle_body.inc).  Following the next marks then gives the few wanted
   results almost for free. */
#include <assert.h>

#include "base/index_shuffle_private.h"
#include "base/isa.h"

/* The register width that every x86-64 and ARM machine has. */
#define WIDTH 16
#define VECTORS 3
#define WALK mr__index_shuffle_plain
#include "base/index_shuffle_body.inc"

void mr_index_shuffle_all(const mr_index_shuffle_t *s, int n, mr_shuffled_t *to) {
  mr__goes_t goes[MR_SHUFFLE_TOGETHER];
  assert(n >= 1 && n <= MR_SHUFFLE_TOGETHER);
  for (int i = 0; i < n; i++) assert(s[i].half == 8 && s[i].max_index < MARKS);
  bool wide = s->rounds == MR_SHUFFLE_ROUNDS && mr__index_shuffle_has_wide();
  if (wide) mr__index_shuffle_wide(s, n, goes);
  for (int i = 0; i < n && !wide; i++)
    (mr_isa() >= MR_ISA_AVX2 ? mr__index_shuffle_avx2 : mr__index_shuffle_plain)(&s[i], goes[i]);
  for (int i = 0; i < n; i++) mr__walk_to_results(s[i].max_index, goes[i], to[i]);
}
