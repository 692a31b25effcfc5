#include "loaders/permute.h"

#include "base/index_shuffle.h"

typedef struct kept {
  mr_index_shuffle_t keys;
  bool bijective;
  int64_t calls; /* for these keys */
  bool whole;    /* all holds every result */
  uint16_t all[MR_SHUFFLE_ALL_MAX];
} kept_t;

static void take_keys(kept_t *t, uint64_t max_index, uint32_t seed, bool bijective) {
  t->bijective = bijective, t->whole = false, t->calls = 0;
  if (bijective)
    mr_index_shuffle_init_bijective(&t->keys, max_index, seed, MR_SHUFFLE_ROUNDS);
  else
    mr_index_shuffle_init(&t->keys, max_index, seed, MR_SHUFFLE_ROUNDS);
}

bool mr_permutes(int64_t n, bool bijective) {
  return bijective || mr_index_shuffle_is_bijection((uint64_t)n - 1);
}

/* Walking to one result of a small permutation takes about as long as to all of them: they are made
   as a whole where they are asked for in a row. */
uint64_t mr_permute(uint64_t i, uint64_t max_index, uint32_t seed, bool bijective) {
  static _Thread_local kept_t last;
  const mr_index_shuffle_t *s = &last.keys;
  bool in_a_row = last.calls > 0;
  if (s->rounds == 0 || s->seed != seed || s->max_index != max_index ||
      last.bijective != bijective) {
    in_a_row = last.calls > 1;
    take_keys(&last, max_index, seed, bijective);
  }
  last.calls++;
  if (last.whole) return last.all[i];
  if (!in_a_row || max_index >= MR_SHUFFLE_ALL_MAX) return mr_index_shuffle_at(s, i);
  mr_index_shuffle_all(s, last.all);
  last.whole = true;
  return last.all[i];
}
