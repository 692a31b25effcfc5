/* A random sequence of collectives, the same for every table: what it returns says whether two
   tables give the same bits. */
#ifndef MR_TESTS_RANKS_SEQUENCE_H
#define MR_TESTS_RANKS_SEQUENCE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/exec/collect.h"
#include "model/exec/device.h"
#include "tests/random.h"

enum { SEQUENCE_BYTES = 3 << 20 };

static inline uint64_t sequence_hash(uint64_t hash, const void *data, size_t n) {
  const unsigned char *at = data;
  for (size_t i = 0; i < n; i++) hash = (hash ^ at[i]) * 0x100000001B3u;
  return hash;
}

/* Floats of many sizes, whose sum depends on the order. */
static inline void sequence_fill(char *in, size_t bytes, round_t *random) {
  for (size_t i = 0; i + 4 <= bytes; i += 4) {
    float x =
        (float)((double)(int32_t)round_bits(random) / (double)(1 + round_bits(random) % 9999));
    memcpy(in + i, &x, 4);
  }
}

/* Makes `turns` calls as rank of size of c, and sends to its neighbours.  Returns a hash of all
   that came; 0 if the communicator failed. */
static inline uint64_t sequence_run(const mr_collect_ops_t *ops, mr_collect_t *c, int rank,
                                    int size, uint64_t seed, int turns) {
  static const mr_dtype_t dtypes[] = {MR_F32, MR_BF16, MR_F16, MR_I32};
  round_t shared = {.x = seed}, own = {.x = seed * 1000 + (uint64_t)rank + 1};
  uint64_t hash = 0xCBF29CE484222325u;
  char *in = calloc(1, SEQUENCE_BYTES), *out = calloc(1, SEQUENCE_BYTES);
  int missing;
  for (int t = 0; t < turns; t++) {
    int what = (int)(round_bits(&shared) % 8);
    int skip = 1 + (int)(round_bits(&shared) % (uint64_t)size);
    bool large = round_bits(&shared) % 8 == 0;
    mr_dtype_t type = dtypes[round_bits(&shared) % 4];
    size_t element = mr_dtype_size(type);
    size_t most = (large ? SEQUENCE_BYTES : 4000) / element / (size_t)size;
    size_t n = round_bits(&shared) % (most + 1), bytes = n * element;
    sequence_fill(in, bytes * (size_t)size, &own);
    memset(out, 0, bytes * (size_t)size);
    if (what == 0)
      ops->all_reduce(c, MR_REDUCE_SUM, type, (int64_t)n * size, in, out);
    else if (what == 1)
      ops->reduce_scatter(c, type, (int64_t)n, in, out);
    else if (what == 2)
      ops->all_gather(c, bytes, in, out);
    else if (what == 3)
      ops->all_to_all(c, bytes, in, out);
    else if (what == 4 || what == 5)
      ops->all_reduce(c, what == 4 ? MR_REDUCE_MAX : MR_REDUCE_MIN, type, (int64_t)n * size, in,
                      out);
    else if (what == 6) /* round a ring of that step, all at once */
      ops->send_receive(c, (rank + skip) % size, (rank + size - skip % size) % size, bytes, in,
                        out);
    else if (size > 1) { /* round the ring, those of even numbers first */
      int next = (rank + 1) % size, before = (rank + size - 1) % size;
      if (rank % 2) ops->receive(c, before, bytes, out);
      ops->send(c, next, bytes, in);
      if (rank % 2 == 0) ops->receive(c, before, bytes, out);
    }
    hash = sequence_hash(hash, out, bytes * (size_t)size);
  }
  bool failed = ops->failed(c, &missing, NULL) < 0;
  free(in), free(out);
  return failed ? 0 : hash;
}

#endif
