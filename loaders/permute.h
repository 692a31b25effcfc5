/* grain's index_shuffle with the keys of the last call kept, for the loaders' orders. */
#ifndef MR_LOADERS_PERMUTE_H
#define MR_LOADERS_PERMUTE_H

#include <stdbool.h>
#include <stdint.h>

/* Where i in [0,max_index] goes under seed; a pure function.  bijective: no two go to one place, as
   in grain they do where max_index is 4^k (base/index_shuffle.h).  Each thread keeps the keys of
   its last few seeds and lengths for its next calls, and of short ones whole orders. */
uint64_t mr_permute(uint64_t i, uint64_t max_index, uint32_t seed, bool bijective);

/* Whether each of n >= 1 goes to a place of its own, whatever the seed. */
bool mr_permutes(int64_t n, bool bijective);

#endif
