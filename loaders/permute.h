/* grain's index_shuffle with the keys of recent calls cached, for the loaders' orders. */
#ifndef MR_LOADERS_PERMUTE_H
#define MR_LOADERS_PERMUTE_H

#include <stdbool.h>
#include <stdint.h>

/* Returns the image of i in [0,max_index] under seed: a pure function; any thread.  bijective: a
   true permutation also where max_index is 4^k; grain's maps two indices to one there
   (base/index_shuffle.h).  Each thread caches the keys of its last few seeds and lengths, and whole
   permutations of short lengths. */
uint64_t mr_permute(uint64_t i, uint64_t max_index, uint32_t seed, bool bijective);

/* Returns whether mr_permute on [0,n), n >= 1, is a permutation for every seed. */
bool mr_permutes(int64_t n, bool bijective);

#endif
