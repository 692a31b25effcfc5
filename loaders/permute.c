#include "loaders/permute.h"

#include "base/index_shuffle.h"

/* The keys of seeds [seed,seed+n), n is 1 until orders are made as a whole. */
typedef struct kept {
  mr_index_shuffle_t keys[MR_SHUFFLE_TOGETHER];
  bool bijective;
  int64_t calls; /* for this seed */
  int n_all;     /* orders in all; 0 without */
  mr_shuffled_t all[MR_SHUFFLE_TOGETHER];
} kept_t;

static void take_keys(kept_t *t, int n, uint64_t max_index, uint32_t seed, bool bijective) {
  t->bijective = bijective, t->n_all = 0, t->calls = 0;
  for (int k = 0; k < n; k++)
    if (bijective)
      mr_index_shuffle_init_bijective(&t->keys[k], max_index, seed + (uint32_t)k,
                                      MR_SHUFFLE_ROUNDS);
    else
      mr_index_shuffle_init(&t->keys[k], max_index, seed + (uint32_t)k, MR_SHUFFLE_ROUNDS);
}

static void make_all(kept_t *t, int n) {
  mr_index_shuffle_all(t->keys, n, t->all);
  t->n_all = n;
}

bool mr_permutes(int64_t n, bool bijective) {
  return bijective || mr_index_shuffle_is_bijection((uint64_t)n - 1);
}

/* What is not among the orders that are made.  Walking to one result of a small permutation takes
   about as long as to all of them: they are made as a whole where they are asked for in a row, and
   those of the next epochs with them where one epoch follows the other. */
static uint64_t find(kept_t *t, uint64_t i, uint64_t max_index, uint32_t seed, bool bijective) {
  const mr_index_shuffle_t *s = t->keys;
  bool same = s->rounds > 0 && s->max_index == max_index && t->bijective == bijective;
  bool small = max_index<MR_SHUFFLE_ALL_MAX, in_a_row = t->calls>(same && s->seed == seed ? 0 : 1);
  if (same && small && t->n_all && seed == s->seed + (uint32_t)t->n_all) {
    take_keys(t, MR_SHUFFLE_TOGETHER, max_index, seed, bijective);
    make_all(t, MR_SHUFFLE_TOGETHER);
    return t->all[0][i];
  }
  if (!same || s->seed != seed) take_keys(t, 1, max_index, seed, bijective);
  t->calls++;
  if (!in_a_row || !small) return mr_index_shuffle_at(s, i);
  make_all(t, 1);
  return t->all[0][i];
}

uint64_t mr_permute(uint64_t i, uint64_t max_index, uint32_t seed, bool bijective) {
  static _Thread_local kept_t last;
  if (max_index == 0) return 0;
  uint32_t ahead = seed - last.keys->seed;
  if (ahead < (uint32_t)last.n_all && last.keys->max_index == max_index &&
      last.bijective == bijective)
    return last.all[ahead][i];
  return find(&last, i, max_index, seed, bijective);
}
