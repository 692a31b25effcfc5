/* NumPy's Philox4x64-10 generator, bit for bit.

   Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011); stream
   conventions of numpy.random.Philox (numpy 2.4).  No call fails or allocates; one thread at a time
   per generator. */
#ifndef MR_BASE_PHILOX_H
#define MR_BASE_PHILOX_H

#include <stdint.h>

#include "base/decls.h"

MR_BEGIN_DECLS

typedef struct mr_philox {
  uint64_t counter[4], key[2];
  uint64_t block[4];
  int at;        /* next word of block in [0,4]; 4: the block is used up */
  uint32_t half; /* the upper half of a 64-bit draw, kept for the next mr_philox_next32 */
  int has_half;
} mr_philox_t;

void mr_philox_init(mr_philox_t *g, uint64_t key0, uint64_t key1); /* numpy Philox(key=...) */

/* Each returns the next draw and advances the generator.  next64 and next32 return uniform bits;
   next32 takes the lower half of a 64-bit draw first and keeps the upper half for its next call.
   random returns [0,1), as Generator.random(); uniform a value between a and b, as
   Generator.uniform(a, b); integers [lo,hi), lo < hi, as Generator.integers(lo, hi). */
uint64_t mr_philox_next64(mr_philox_t *g);
uint32_t mr_philox_next32(mr_philox_t *g);
double mr_philox_random(mr_philox_t *g);
double mr_philox_uniform(mr_philox_t *g, double a, double b);
int64_t mr_philox_integers(mr_philox_t *g, int64_t lo, int64_t hi);

MR_END_DECLS

#endif
