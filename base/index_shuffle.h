/* A keyed permutation of [0,max_index]: grain's index_shuffle, bit for bit.

   A Simon block cipher (Beaulieu et al., 2013) of the smallest even block that grain takes for
   max_index, walked until the result lies inside.  Where max_index is exactly 4^k, k >= 8, the
   block is one bit short and index max_index gives index 0's result: grain does so too. */
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

/* The keys for one (max_index, seed, rounds); immutable once made, so threads may share it. */
typedef struct mr_index_shuffle {
  uint64_t max_index, mask; /* mask: ones of half a block */
  uint32_t seed;
  int half, rounds; /* half: bits of half a block, [8,32] */
  uint32_t key[MR_SHUFFLE_ROUNDS_MAX];
} mr_index_shuffle_t;

/* Writes the keys into *s, which holds no memory.  rounds: even, in [2,MR_SHUFFLE_ROUNDS_MAX];
   grain's samplers use MR_SHUFFLE_ROUNDS.  MR_ERR_CONFIG for any other number: *s is then all zeros
   and gives 0 for every index. */
mr_err_t mr_index_shuffle_init(mr_index_shuffle_t *s, uint64_t max_index, uint32_t seed,
                               int rounds);

/* The same with a block that always holds max_index: each result comes once. */
mr_err_t mr_index_shuffle_init_bijective(mr_index_shuffle_t *s, uint64_t max_index, uint32_t seed,
                                         int rounds);

/* Whether mr_index_shuffle_init's block holds all of [0,max_index], so each result comes once. */
bool mr_index_shuffle_is_bijection(uint64_t max_index);

/* The result for index in [0,max_index]. */
uint64_t mr_index_shuffle_at(const mr_index_shuffle_t *s, uint64_t index);

/* The results of all indices, in their order. */
typedef uint16_t mr_shuffled_t[MR_SHUFFLE_ALL_MAX];

/* All results of each of s[0,n), of index i into to[.][i], for max_index < MR_SHUFFLE_ALL_MAX and n
   in [1,MR_SHUFFLE_TOGETHER]; rounds are the same in all.  Several at once cost less each: 8 us
   with AVX-512, 20 with AVX2, 30 without both, while a single result of ten takes 60 by itself. */
void mr_index_shuffle_all(const mr_index_shuffle_t *s, int n, mr_shuffled_t *to);

/* The same for the n seeds from this one on (after 2^32-1 comes 0) and MR_SHUFFLE_ROUNDS rounds,
   max_index in [1,MR_SHUFFLE_TINY_MAX) and n in [1,MR_SHUFFLE_TINY_TOGETHER]; the more, the less
   each costs.  False where this machine has no faster way than the one above: nothing is made. */
typedef uint16_t mr_shuffled_tiny_t[MR_SHUFFLE_TINY_MAX];
bool mr_index_shuffle_tiny(uint64_t max_index, uint32_t seed, int n, mr_shuffled_tiny_t *to);

MR_END_DECLS

#endif
