/* What the ways of making whole orders (index_shuffle_all.c, index_shuffle_wide.c) share. */
#ifndef MR_BASE_INDEX_SHUFFLE_PRIVATE_H
#define MR_BASE_INDEX_SHUFFLE_PRIVATE_H

#include "base/index_shuffle.h"

/* Marks are the values below MR__MARKS: walks go from one to the next one. */
enum { MR__MARKS = MR_SHUFFLE_ALL_MAX };
_Static_assert(MR__MARKS % 256 == 0, "a value is a mark by its upper byte alone");

typedef uint16_t mr__goes_t[MR__MARKS]; /* the mark after each mark */

/* The marks after all marks of one permutation with halves of 8 bits; avx2 only where mr_isa() has
   it. */
void mr__index_shuffle_plain(const mr_index_shuffle_t *s, mr__goes_t goes);
void mr__index_shuffle_avx2(const mr_index_shuffle_t *s, mr__goes_t goes);

/* The marks after all marks, for each of s[0,n), n in [1,MR_SHUFFLE_TOGETHER]; halves of 8 bits and
   MR_SHUFFLE_ROUNDS rounds.  Only where mr__index_shuffle_has_wide. */
void mr__index_shuffle_wide(const mr_index_shuffle_t *s, int n, mr__goes_t *goes);

/* The results of a small permutation from where its marks go. */
static inline void mr__walk_to_results(uint64_t max_index, const uint16_t *goes, uint16_t *to) {
  for (uint64_t i = 0; i <= max_index; i++) {
    uint64_t v = i;
    do v = goes[v];
    while (v > max_index);
    to[i] = (uint16_t)v;
  }
}

/* In this build, on this machine and by MILLRACE_ISA: AVX-512 with GFNI and VBMI2. */
bool mr__index_shuffle_has_wide(void);

#endif
