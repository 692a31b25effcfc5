/* The state of a stream of batches, and its form as numbers. */
#include "pipeline/stream_at.h"

#include <string.h>

void mr_stream_at_pass(mr_stream_at_t *at, const mr_spec_t *spec, const mr_buf_t *b) {
  at->position = b->position;
  at->number++;
  at->n_words = spec->n_words;
  if (at->n_words) memcpy(at->word, b->word, (size_t)at->n_words * sizeof *at->word);
}

int mr_stream_at_pack(const mr_stream_at_t *at, int64_t *to) {
  to[0] = at->position, to[1] = at->number;
  memcpy(to + 2, at->word, (size_t)at->n_words * sizeof *to);
  return 2 + at->n_words;
}

bool mr_stream_at_unpack(mr_stream_at_t *at, const int64_t *from, int64_t n) {
  if (n < 2 || n > MR_STREAM_AT_NUMBERS) return false;
  for (int64_t i = 0; i < n; i++)
    if (from[i] < 0) return false;
  at->position = from[0], at->number = from[1], at->n_words = (int32_t)(n - 2);
  memcpy(at->word, from + 2, (size_t)(n - 2) * sizeof *from);
  return true;
}
