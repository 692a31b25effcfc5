/* One index at a time: key schedule by std::seed_seq, then cycle walking until the value is in *
   range. */
#include "base/index_shuffle.h"

#include <assert.h>
#include <math.h>

#include "base/seedseq.h"

/* log2 of max_index as a double, not of the number of indices: grain's own block size. */
static int grain_bits(uint64_t max_index) {
  return max_index ? (int)ceil(log2((double)max_index)) : 0;
}

static int all_bits(uint64_t max_index) { return max_index ? 64 - __builtin_clzll(max_index) : 0; }

static int block_bits(int bits) {
  bits += bits % 2;
  return bits < 16 ? 16 : bits > 64 ? 64 : bits;
}

bool mr_index_shuffle_is_bijection(uint64_t max_index) {
  return all_bits(max_index) <= block_bits(grain_bits(max_index));
}

static mr_err_t shuffle_init(mr_index_shuffle_t *s, uint64_t max_index, uint32_t seed, int rounds,
                             int bits) {
  *s = (mr_index_shuffle_t){0};
  if (rounds < 2 || rounds > MR_SHUFFLE_ROUNDS_MAX || rounds % 2) return MR_ERR_CONFIG;
  int half = block_bits(bits) / 2;
  *s = (mr_index_shuffle_t){.max_index = max_index, .seed = seed, .half = half, .rounds = rounds};
  assert(half >= 8 && half <= 32); /* keys are words of 32 bits */
  s->mask = ((uint64_t)1 << half) - 1;
  mr_seed_seq(&seed, 1, s->key, (size_t)rounds);
  for (int i = 0; i < rounds; i++) s->key[i] &= (uint32_t)s->mask;
  return MR_OK;
}

mr_err_t mr_index_shuffle_init(mr_index_shuffle_t *s, uint64_t max_index, uint32_t seed,
                               int rounds) {
  return shuffle_init(s, max_index, seed, rounds, grain_bits(max_index));
}

mr_err_t mr_index_shuffle_init_bijective(mr_index_shuffle_t *s, uint64_t max_index, uint32_t seed,
                                         int rounds) {
  return shuffle_init(s, max_index, seed, rounds, all_bits(max_index));
}

static inline uint64_t index_shuffle_rotl(uint64_t x, int r, int half, uint64_t mask) {
  return ((x << r) | (x >> (half - r))) & mask;
}

static inline uint64_t simon_f(uint64_t x, int half, uint64_t mask) {
  return (index_shuffle_rotl(x, 1, half, mask) & index_shuffle_rotl(x, 8, half, mask)) ^
         index_shuffle_rotl(x, 2, half, mask);
}

uint64_t mr_index_shuffle_at(const mr_index_shuffle_t *s, uint64_t index) {
  if (s->max_index == 0) return 0;
  uint64_t v = index, mask = s->mask;
  int half = s->half;
  do {
    uint64_t left = (v >> half) & mask, right = v & mask;
    for (int i = 0; i < s->rounds; i += 2) {
      left ^= simon_f(right, half, mask) ^ s->key[i];
      right ^= simon_f(left, half, mask) ^ s->key[i + 1];
    }
    v = left << half | right;
  } while (v > s->max_index);
  return v;
}

/* The rounds, the last one first. */
static uint64_t undo_rounds(const mr_index_shuffle_t *s, uint64_t v) {
  uint64_t mask = s->mask, left = (v >> s->half) & mask, right = v & mask;
  for (int i = s->rounds - 2; i >= 0; i -= 2) {
    right ^= simon_f(left, s->half, mask) ^ s->key[i + 1];
    left ^= simon_f(right, s->half, mask) ^ s->key[i];
  }
  return left << s->half | right;
}

int mr_index_shuffle_from(const mr_index_shuffle_t *s, uint64_t result, uint64_t index[2]) {
  uint64_t v = result;
  if (result > s->max_index || !s->rounds) return 0;
  if (s->max_index == 0) return index[0] = 0, 1;
  bool short_block = all_bits(s->max_index) > 2 * s->half;
  if (short_block && result >> (2 * s->half)) return 0; /* no block holds it */
  do {
    v = undo_rounds(s, v);
  } while (v > s->max_index);
  index[0] = v;
  if (!short_block) return 1;
  index[1] = v | UINT64_C(1) << (2 * s->half); /* the bit that the block has no room for */
  return index[1] <= s->max_index ? 2 : 1;
}
