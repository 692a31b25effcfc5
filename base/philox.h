/* NumPy's Philox4x64-10 generator, bit for bit.

   Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011);
   stream conventions of numpy.random.Philox (numpy 2.4). */
#ifndef MR_BASE_PHILOX_H
#define MR_BASE_PHILOX_H

#include <stdint.h>

#include "base/decls.h"

MR_BEGIN_DECLS

typedef struct mr_philox {
  uint64_t counter[4], key[2];
  uint64_t block[4];
  int at;        /* next word of block in [0,4]; 4: make a new block */
  uint32_t half; /* the kept upper half of a 64-bit draw */
  int has_half;
} mr_philox_t;

void mr_philox_init(mr_philox_t *g, uint64_t key0, uint64_t key1); /* numpy Philox(key=...) */
/* Uniform bits; of a 64-bit draw next32 gives the lower half first and keeps the upper one. */
uint64_t mr_philox_next64(mr_philox_t *g);
uint32_t mr_philox_next32(mr_philox_t *g);
double mr_philox_random(mr_philox_t *g);                      /* Generator.random(): [0,1) */
double mr_philox_uniform(mr_philox_t *g, double a, double b); /* Generator.uniform(a,b) */
int64_t mr_philox_integers(mr_philox_t *g, int64_t lo,
                           int64_t hi); /* Generator.integers(lo,hi): [lo,hi), lo < hi */

MR_END_DECLS

#endif
