/* A keyed permutation of [0,max_index]: grain's index_shuffle, bit for bit.

   A Simon block cipher (Beaulieu et al., 2013) with the smallest even block size that grain chooses
   for max_index, applied repeatedly until the result lies inside.  Where max_index is exactly 4^k,
   k >= 8, the block is one bit short and index max_index gives index 0's result, as in grain.

   index_shuffle.c has single results, index_shuffle_all.c whole small permutations, and
   index_shuffle_tiny.c those of two to four records. */
#ifndef MR_BASE_INDEX_SHUFFLE_H
#define MR_BASE_INDEX_SHUFFLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/decls.h"
#include "base/err.h"

MR_BEGIN_DECLS

enum {
  MR_SHUFFLE_ROUNDS = 4,
  MR_SHUFFLE_ROUNDS_MAX = 16,
  MR_SHUFFLE_ALL_MAX = 1024,
  MR_SHUFFLE_TOGETHER = 8,
  MR_SHUFFLE_TINY_MAX = 4,
  MR_SHUFFLE_TINY_TOGETHER = 2048
};

/* The keys for one (max_index, seed, rounds); immutable after init, so threads may share it. */
typedef struct mr_index_shuffle {
  uint64_t max_index, mask; /* mask: ones of half a block */
  uint32_t seed;
  int half, rounds; /* half: bits of half a block, [8,32] */
  uint32_t key[MR_SHUFFLE_ROUNDS_MAX];
} mr_index_shuffle_t;

/* Writes the keys into *s, which owns no memory.  rounds: even, in [2,MR_SHUFFLE_ROUNDS_MAX];
   grain's samplers use MR_SHUFFLE_ROUNDS.  MR_ERR_CONFIG for any other number, without a
   sentence: *s is then all zeros and gives 0 for every index. */
mr_err_t mr_index_shuffle_init(mr_index_shuffle_t *s, uint64_t max_index, uint32_t seed,
                               int rounds);

/* The same, failures included, with a block that always holds max_index: a true permutation. */
mr_err_t mr_index_shuffle_init_bijective(mr_index_shuffle_t *s, uint64_t max_index, uint32_t seed,
                                         int rounds);

/* Returns whether mr_index_shuffle_init's block holds all of [0,max_index], so that each result
   occurs once. */
bool mr_index_shuffle_is_bijection(uint64_t max_index);

/* Returns the result for index, both in [0,max_index]. */
uint64_t mr_index_shuffle_at(const mr_index_shuffle_t *s, uint64_t index);

/* The inverse: writes the indices whose result is `result`, rising, to index[0,2) and returns how
   many there are.  One for each result in [0,max_index] of a bijection; else none or two for a few.
   None for a result above max_index, and for keys that init has refused. */
int mr_index_shuffle_from(const mr_index_shuffle_t *s, uint64_t result, uint64_t index[2]);

/* The results of all indices, in index order. */
typedef uint16_t mr_shuffled_t[MR_SHUFFLE_ALL_MAX];

/* Writes all results of each of s[0,n), of index i into to[.][i], for max_index <
   MR_SHUFFLE_ALL_MAX and n in [1,MR_SHUFFLE_TOGETHER]; all have the same number of rounds.  Several
   at once cost less each: 8 us with AVX-512, 20 with AVX2, 30 with neither.  One
   mr_index_shuffle_at with ten indices takes 60. */
void mr_index_shuffle_all(const mr_index_shuffle_t *s, int n, mr_shuffled_t *to);

/* The same for n consecutive seeds starting at seed (0 follows 2^32-1) and MR_SHUFFLE_ROUNDS
   rounds, max_index in [1,MR_SHUFFLE_TINY_MAX) and n in [1,MR_SHUFFLE_TINY_TOGETHER]; more seeds
   cost less each.  Returns false, with `to` unchanged, where this machine has no faster way than
   mr_index_shuffle_all. */
typedef uint16_t mr_shuffled_tiny_t[MR_SHUFFLE_TINY_MAX];
bool mr_index_shuffle_tiny(uint64_t max_index, uint32_t seed, int n, mr_shuffled_tiny_t *to);

MR_END_DECLS

#endif
