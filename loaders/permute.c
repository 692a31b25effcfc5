#include "loaders/permute.h"

#include "base/index_shuffle.h"

uint64_t mr_permute(uint64_t i, uint64_t max_index, uint32_t seed, bool bijective) {
  static _Thread_local mr_index_shuffle_t last;
  static _Thread_local bool was_bijective;
  if (last.rounds == 0 || last.seed != seed || last.max_index != max_index ||
      was_bijective != bijective) {
    was_bijective = bijective;
    if (bijective)
      mr_index_shuffle_init_bijective(&last, max_index, seed, MR_SHUFFLE_ROUNDS);
    else
      mr_index_shuffle_init(&last, max_index, seed, MR_SHUFFLE_ROUNDS);
  }
  return mr_index_shuffle_at(&last, i);
}
