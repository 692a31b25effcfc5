/* jax.random on arrays: keys, and draws by key.

   Source: jax.random of jax 0.10 (threefry2x32).  Integers (keys, bits, randint, permutation,
   bernoulli) and uniform equal JAX's bit for bit; normal and truncated_normal (any bounds) within 4
   ulp + 1e-7.  Arrays are dense in row-major order: n is the product of the shape, and out[n] is
   the caller's.  Only mr_random_permutation can fail or allocates.  Any thread. */
#ifndef MR_BASE_RANDOM_H
#define MR_BASE_RANDOM_H

#include "base/decls.h"
#include "base/err.h"
#include "base/threefry.h"

MR_BEGIN_DECLS

/* How a draw's counters map to its elements: the value of jax_threefry_partitionable. */
typedef enum mr_key_layout {
  MR_KEY_PARTITIONABLE, /* True, JAX's default: element i depends on the key and i alone */
  MR_KEY_ORIGINAL       /* False: element i depends on n too; n < 2^32, for split < 2^31 */
} mr_key_layout_t;

typedef struct mr_prng {
  mr_key_t key;
  mr_key_layout_t layout;
} mr_prng_t;

/* Each returns a new key by value: PRNGKey(seed), of seed mod 2^32; jax.random.fold_in(k, data);
   element i in [0,n) of jax.random.split(k, n).  mr_random_split writes all n. */
mr_prng_t mr_prng(uint64_t seed, mr_key_layout_t layout);
mr_prng_t mr_random_fold_in(mr_prng_t k, uint32_t data);
mr_prng_t mr_random_split_at(mr_prng_t k, size_t i, size_t n);
void mr_random_split(mr_prng_t k, size_t n, mr_prng_t *out);

/* Returns element i in [0,n) of mr_random_bits; the other draws are computed from these words. */
uint32_t mr_random_word(mr_prng_t k, size_t i, size_t n);
/* out[n]: 32 uniform bits each.  Source: jax.random.bits. */
void mr_random_bits(mr_prng_t k, size_t n, uint32_t *out);
/* out[n]: f32 in [lo,hi), lo < hi both finite. */
void mr_random_uniform(mr_prng_t k, size_t n, float lo, float hi, float *out);
/* out[n]: standard normals, by the inverse error function as in JAX. */
void mr_random_normal(mr_prng_t k, size_t n, float *out);
/* Standard normals cut to (lo,hi), lo < hi, either of which may be infinite. */
void mr_random_truncated_normal(mr_prng_t k, size_t n, float lo, float hi, float *out);
/* out[n]: 1 with probability p, else 0. */
void mr_random_bernoulli(mr_prng_t k, size_t n, float p, uint8_t *out);
/* out[n]: integers in [lo,hi); lo everywhere if hi <= lo, as in JAX. */
void mr_random_randint(mr_prng_t k, size_t n, int32_t lo, int32_t hi, int32_t *out);
/* out[count]: elements [from,from + count) of mr_random_randint's n. */
void mr_random_randint_part(mr_prng_t k, size_t n, size_t from, size_t count, int32_t lo,
                            int32_t hi, int32_t *out);
/* out[n]: the numbers [0,n) shuffled.  MR_ERR_NOMEM, with n in the sentence, and out unchanged. */
mr_err_t mr_random_permutation(mr_prng_t k, uint32_t n, uint32_t *out, mr_diag_t *diag);
/* The same without allocation, in scratch memory of the caller: mr_random_permutation_room(n)
   bytes, 8-aligned.  The room function returns 12 n. */
void mr_random_permutation_in(mr_prng_t k, uint32_t n, void *room, uint32_t *out);
size_t mr_random_permutation_room(uint32_t n);

MR_END_DECLS

#endif
