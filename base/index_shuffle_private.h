/* Shared by the implementations that compute whole permutations: index_shuffle_all.c,
   index_shuffle_avx2.c, index_shuffle_tiny.c and index_shuffle_wide.c. */
#ifndef MR_BASE_INDEX_SHUFFLE_PRIVATE_H
#define MR_BASE_INDEX_SHUFFLE_PRIVATE_H

#include "base/index_shuffle.h"

/* Marks are the values below MR__MARKS.  A walk applies the cipher from one mark to the next. */
enum { MR__MARKS = MR_SHUFFLE_ALL_MAX };
_Static_assert(MR__MARKS % 256 == 0, "a value is a mark by its upper byte alone");

typedef uint16_t mr__goes_t[MR__MARKS]; /* [m]: the mark that the walk from mark m ends at */

/* Writes the next mark of every mark of one permutation with halves of 8 bits.  Call the avx2 one
   only where mr_isa() has AVX2. */
void mr__index_shuffle_plain(const mr_index_shuffle_t *s, mr__goes_t goes);
void mr__index_shuffle_avx2(const mr_index_shuffle_t *s, mr__goes_t goes);

/* The same for each of s[0,n), n in [1,MR_SHUFFLE_TOGETHER], with MR_SHUFFLE_ROUNDS rounds.  Call
   it only where mr__index_shuffle_has_wide. */
void mr__index_shuffle_wide(const mr_index_shuffle_t *s, int n, mr__goes_t *goes);

/* Writes the results of a small permutation by following its marks. */
static inline void mr__walk_to_results(uint64_t max_index, const uint16_t *goes, uint16_t *to) {
  for (uint64_t i = 0; i <= max_index; i++) {
    uint64_t v = i;
    do v = goes[v];
    while (v > max_index);
    to[i] = (uint16_t)v;
  }
}

/* Returns whether this build and machine have AVX-512 with GFNI and VBMI2 and MILLRACE_ISA allows
   it. */
bool mr__index_shuffle_has_wide(void);

#endif
