/* JAX's default random keys: threefry2x32, 20 rounds, partitionable layout.

   Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011); jax.random of jax
   0.10 with jax_threefry_partitionable=1.  Bits, splits and folds are bit-identical to JAX.  All
   results are returned by value; no call fails.  Any thread. */
#ifndef MR_BASE_THREEFRY_H
#define MR_BASE_THREEFRY_H

#include <stddef.h>
#include <stdint.h>

#include "base/decls.h"

MR_BEGIN_DECLS

typedef struct mr_key {
  uint32_t a, b;
} mr_key_t;

/* Returns the block of counter (x0,x1) encrypted under key k. */
mr_key_t mr_threefry2x32(mr_key_t k, uint32_t x0, uint32_t x1);

/* Each returns what JAX does: the key (0, seed mod 2^32) of jax.random.key, the key of
   jax.random.fold_in, element i of jax.random.split, of jax.random.bits, of jax.random.uniform in
   [lo,hi), and of jax.random.normal. */
mr_key_t mr_key(uint64_t seed);
mr_key_t mr_key_fold_in(mr_key_t k, uint32_t data);
mr_key_t mr_key_split(mr_key_t k, uint64_t i);
uint32_t mr_key_bits(mr_key_t k, uint64_t i);
float mr_key_uniform(mr_key_t k, uint64_t i, float lo, float hi);
float mr_key_normal(mr_key_t k, uint64_t i);

/* The bounds of a standard normal cut to (lo,hi), with their erf computed once for all draws. */
typedef struct mr_truncated {
  float erf_lo, erf_hi; /* of the bounds' quotients with sqrt(2) */
  float least, most;    /* the first and the last float between the bounds */
} mr_truncated_t;

/* mr_truncated returns the bounds for lo < hi, either of which may be infinite;
   mr_key_truncated_normal returns element i of jax.random.truncated_normal, in (lo,hi). */
mr_truncated_t mr_truncated(float lo, float hi);
float mr_key_truncated_normal(mr_key_t k, uint64_t i, const mr_truncated_t *cut);

/* Each returns the draw above that 32 random bits give: [lo,hi), normal, or (lo,hi). */
float mr_uniform_of_bits(uint32_t bits, float lo, float hi);
float mr_normal_of_bits(uint32_t bits);
float mr_truncated_normal_of_bits(uint32_t bits, const mr_truncated_t *cut);

MR_END_DECLS

#endif
