/* Which record stands at a position of a run: grain 0.2.18's IndexSampler and SequentialSampler,
   as functions of the position alone.

   A sampler is immutable once made: any number of threads may ask it at once. */
#ifndef MR_LOADERS_SAMPLER_H
#define MR_LOADERS_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

typedef struct mr_sampler_conf {
  int64_t n_records; /* of the whole dataset, >= 1 */
  int64_t n_epochs;  /* 0: endless */
  bool sequential;   /* SequentialSampler: shards are strided, and epochs repeat one order */
  bool shuffle;      /* IndexSampler: a new permutation each epoch; needs a seed */
  bool seeded;       /* records have generators */
  uint32_t seed;
  int64_t shard, n_shards; /* shard in [0,n_shards); n_shards 1: all records */
  bool drop_remainder;     /* shards of one size */
  /* what grain 0.2.18 does not do */
  bool whole_shards; /* each shard gives all its records each epoch, also where sizes differ */
  bool bijective;    /* base/index_shuffle.h: of 4^k + 1 records none comes twice */
} mr_sampler_conf_t;

typedef struct mr_sampler {
  mr_sampler_conf_t conf;
  int64_t start, size; /* records of this shard; the IndexSampler's are [start,start+size) */
  int64_t len;         /* grain's len(sampler), over all epochs and shards; 0: endless */
  int64_t local_len;   /* positions that this shard's DataLoader walks; 0: endless */
} mr_sampler_t;

/* Checks conf.  MR_ERR_CONFIG with a sentence on a shard that is none or has no record, a shuffle
   without a seed, or a length beyond 2^62. */
mr_err_t mr_sampler_init(mr_sampler_t *s, const mr_sampler_conf_t *conf, mr_diag_t *diag);

/* Whether position i is so near that none of these calls overflows: i >= 0, and below 2^61 over the
   number of shards where there are several. */
bool mr_sampler_reaches(const mr_sampler_t *s, int64_t i);

/* The global index that this shard's DataLoader asks for at its own position i, which it reaches.
 */
int64_t mr_sampler_index(const mr_sampler_t *s, int64_t i);

/* At a global index >= 0: the record, and the Philox key of its generator (0 without a seed).
   The shuffle's keys of an epoch are kept by each thread for its next call. */
void mr_sampler_at(const mr_sampler_t *s, int64_t index, int64_t *record, uint64_t *key);

/* "I/N" into shard and n_shards, 0 <= I < N <= 2^31; NULL or "" is 0/1.  False: it is not that. */
bool mr_sampler_parse_shard(const char *text, int64_t *shard, int64_t *n_shards);

#endif
