/* grain's index_shuffle with the keys of the last call kept, for the loaders' orders. */
#ifndef MR_LOADERS_PERMUTE_H
#define MR_LOADERS_PERMUTE_H

#include <stdint.h>

/* Where i in [0,max_index] goes under seed; a pure function.  Each thread keeps the keys of its
   last seed and length for its next call. */
uint64_t mr_permute(uint64_t i, uint64_t max_index, uint32_t seed);

#endif
