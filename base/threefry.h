/* JAX's default random keys: threefry2x32, 20 rounds, partitionable layout.

   Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011); jax.random of
   jax 0.10 with jax_threefry_partitionable=1.  Bits, splits and folds are bit-identical to JAX. */
#ifndef MR_BASE_THREEFRY_H
#define MR_BASE_THREEFRY_H

#include <stddef.h>
#include <stdint.h>

#include "base/decls.h"

MR_BEGIN_DECLS

typedef struct mr_key {
  uint32_t a, b;
} mr_key_t;

/* The block cipher itself: counter (x0,x1) under key k. */
mr_key_t mr_threefry2x32(mr_key_t k, uint32_t x0, uint32_t x1);

mr_key_t mr_key(uint64_t seed);                     /* jax.random.key: (0, seed mod 2^32) */
mr_key_t mr_key_fold_in(mr_key_t k, uint32_t data); /* jax.random.fold_in */
mr_key_t mr_key_split(mr_key_t k, uint64_t i);      /* element i of jax.random.split(k, n) */
uint32_t mr_key_bits(mr_key_t k, uint64_t i);       /* element i of jax.random.bits */
float mr_key_uniform(mr_key_t k, uint64_t i, float lo, float hi); /* in [lo,hi) */
float mr_key_normal(mr_key_t k, uint64_t i);                      /* a standard normal */

/* A standard normal cut to (lo,hi): what all its draws need of the bounds, so that erf is not
   computed twice a draw. */
typedef struct mr_truncated {
  float erf_lo, erf_hi; /* of the bounds' quotients with sqrt(2) */
  float least, most;    /* the first and the last float between the bounds */
} mr_truncated_t;

mr_truncated_t mr_truncated(float lo, float hi); /* lo < hi; either may be infinite */
float mr_key_truncated_normal(mr_key_t k, uint64_t i, const mr_truncated_t *cut);

/* What the three above make of 32 random bits. */
float mr_uniform_of_bits(uint32_t bits, float lo, float hi);
float mr_normal_of_bits(uint32_t bits);
float mr_truncated_normal_of_bits(uint32_t bits, const mr_truncated_t *cut);

MR_END_DECLS

#endif
