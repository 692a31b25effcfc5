/* jax.random's draws, each computed element by element from mr_random_word.  Element i depends on
   the key, i and, in the original layout, the length alone, so that kernels may compute any part of
   an array, on any thread, and get the same bits. */
#include "base/random.h"

#include <math.h>
#include <stdlib.h>

mr_prng_t mr_prng(uint64_t seed, mr_key_layout_t layout) {
  return (mr_prng_t){mr_key(seed), layout};
}

mr_prng_t mr_random_fold_in(mr_prng_t k, uint32_t data) {
  return (mr_prng_t){mr_key_fold_in(k.key, data), k.layout};
}

/* Word i of n in the original layout.  The counters 0..n-1, padded with a 0 if n is odd, are cut in
   two halves; counter i of each half form the two words of a block. */
static uint32_t original_word(mr_key_t k, uint64_t i, uint64_t n) {
  uint64_t half = (n + 1) / 2, low = i < half ? i : i - half, high = low + half;
  mr_key_t block = mr_threefry2x32(k, (uint32_t)low, high < n ? (uint32_t)high : 0);
  return i < half ? block.a : block.b;
}

uint32_t mr_random_word(mr_prng_t k, size_t i, size_t n) {
  return k.layout == MR_KEY_PARTITIONABLE ? mr_key_bits(k.key, i) : original_word(k.key, i, n);
}

mr_prng_t mr_random_split_at(mr_prng_t k, size_t i, size_t n) {
  if (k.layout == MR_KEY_PARTITIONABLE) return (mr_prng_t){mr_key_split(k.key, i), k.layout};
  return (mr_prng_t){{original_word(k.key, 2 * i, 2 * n), original_word(k.key, 2 * i + 1, 2 * n)},
                     k.layout};
}

void mr_random_split(mr_prng_t k, size_t n, mr_prng_t *out) {
  for (size_t i = 0; i < n; i++) out[i] = mr_random_split_at(k, i, n);
}

void mr_random_bits(mr_prng_t k, size_t n, uint32_t *out) {
  if (k.layout == MR_KEY_PARTITIONABLE) {
    for (size_t i = 0; i < n; i++) out[i] = mr_key_bits(k.key, i);
    return;
  }
  size_t half = (n + 1) / 2; /* both words of a block at once */
  for (size_t i = 0; i < half; i++) {
    mr_key_t b = mr_threefry2x32(k.key, (uint32_t)i, half + i < n ? (uint32_t)(half + i) : 0);
    out[i] = b.a;
    if (half + i < n) out[half + i] = b.b;
  }
}

void mr_random_uniform(mr_prng_t k, size_t n, float lo, float hi, float *out) {
  for (size_t i = 0; i < n; i++) out[i] = mr_uniform_of_bits(mr_random_word(k, i, n), lo, hi);
}

void mr_random_normal(mr_prng_t k, size_t n, float *out) {
  for (size_t i = 0; i < n; i++) out[i] = mr_normal_of_bits(mr_random_word(k, i, n));
}

void mr_random_truncated_normal(mr_prng_t k, size_t n, float lo, float hi, float *out) {
  mr_truncated_t cut = mr_truncated(lo, hi);
  for (size_t i = 0; i < n; i++)
    out[i] = mr_truncated_normal_of_bits(mr_random_word(k, i, n), &cut);
}

void mr_random_bernoulli(mr_prng_t k, size_t n, float p, uint8_t *out) {
  for (size_t i = 0; i < n; i++) out[i] = mr_uniform_of_bits(mr_random_word(k, i, n), 0, 1) < p;
}

/* Two words per element, so that the remainder's bias is 2^-32 of what one word would have. */
void mr_random_randint_part(mr_prng_t k, size_t n, size_t from, size_t count, int32_t lo,
                            int32_t hi, int32_t *out) {
  mr_prng_t sub[2];
  mr_random_split(k, 2, sub);
  uint32_t span = hi <= lo ? 1 : (uint32_t)hi - (uint32_t)lo;
  uint32_t half = 65536u % span, word = half * half % span; /* 2^32 mod span, as JAX wraps it */
  for (size_t i = 0; i < count; i++) {
    uint32_t high = mr_random_word(sub[0], from + i, n), low = mr_random_word(sub[1], from + i, n);
    out[i] = (int32_t)((uint32_t)lo + (high % span * word + low % span) % span);
  }
}

void mr_random_randint(mr_prng_t k, size_t n, int32_t lo, int32_t hi, int32_t *out) {
  mr_random_randint_part(k, n, 0, n, lo, hi, out);
}

typedef struct card {
  uint32_t bits, at, value;
} card_t;

static int by_bits(const void *a, const void *b) {
  const card_t *x = a, *y = b;
  if (x->bits != y->bits) return x->bits < y->bits ? -1 : 1;
  return x->at < y->at ? -1 : x->at > y->at; /* stable, as lax.sort is */
}

size_t mr_random_permutation_room(uint32_t n) { return (size_t)n * sizeof(card_t); }

/* Sorts by random words, repeatedly, until ties between equal words are unlikely to matter. */
void mr_random_permutation_in(mr_prng_t k, uint32_t n, void *room, uint32_t *out) {
  card_t *card = room;
  int rounds = n > 1 ? (int)ceil(3 * log(n) / log(UINT32_MAX)) : 0;
  for (uint32_t i = 0; i < n; i++) out[i] = i;
  while (rounds--) {
    mr_prng_t sub[2];
    mr_random_split(k, 2, sub);
    k = sub[0];
    for (uint32_t i = 0; i < n; i++) card[i] = (card_t){mr_random_word(sub[1], i, n), i, out[i]};
    qsort(card, n, sizeof *card, by_bits);
    for (uint32_t i = 0; i < n; i++) out[i] = card[i].value;
  }
}

mr_err_t mr_random_permutation(mr_prng_t k, uint32_t n, uint32_t *out, mr_diag_t *diag) {
  void *room = malloc(mr_random_permutation_room(n) + 1);
  if (!room) return mr_no_memory(diag, "a random permutation of %u numbers", n);
  mr_random_permutation_in(k, n, room, out);
  free(room);
  return MR_OK;
}
