/* HighwayHash of 64 bits, a keyed hash that Riegeli's files use as their checksum.

   Source: Alakuijala, Cox, Wassenberg, "Fast keyed hash/pseudo-random function using SIMD multiply
   and permute", arXiv 1612.06257. */
#ifndef MR_BASE_HIGHWAY_H
#define MR_BASE_HIGHWAY_H

#include <stddef.h>
#include <stdint.h>

/* Returns the hash of data[0,n).  Any thread; cannot fail. */
uint64_t mr_highway64(const uint64_t key[4], const void *data, size_t n);

#endif
