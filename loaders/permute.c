#include "loaders/permute.h"

#include "base/index_shuffle.h"

uint64_t mr_permute(uint64_t i, uint64_t max_index, uint32_t seed) {
  static _Thread_local mr_index_shuffle_t last;
  if (last.rounds == 0 || last.seed != seed || last.max_index != max_index)
    mr_index_shuffle_init(&last, max_index, seed, MR_SHUFFLE_ROUNDS);
  return mr_index_shuffle_at(&last, i);
}
