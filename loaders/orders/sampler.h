/* Maps positions of a run to records: grain 0.2.18's IndexSampler and SequentialSampler, as
   functions of the position alone.

   A sampler is immutable after init, so threads may share it.  It owns no memory.  Implemented in
   sampler.c; mr_permute, which caches permutations, in permute.c. */
#ifndef MR_LOADERS_ORDERS_SAMPLER_H
#define MR_LOADERS_ORDERS_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

typedef struct mr_sampler_conf {
  int64_t n_records; /* of the whole data set, >= 1 */
  int64_t n_epochs;  /* 0: endless */
  bool sequential;   /* SequentialSampler: shards are strided, and epochs repeat one order */
  bool shuffle;      /* IndexSampler: a new permutation each epoch; needs a seed */
  bool seeded;       /* records have generators */
  uint32_t seed;
  int64_t shard, n_shards; /* shard in [0,n_shards); n_shards 1: all records */
  bool drop_remainder;     /* all shards have the same size */
  /* options that grain 0.2.18 does not have */
  bool whole_shards; /* each shard gives all its records each epoch, also where sizes differ */
  bool bijective;    /* base/index_shuffle.h: none of 4^k + 1 records comes twice */
} mr_sampler_conf_t;

typedef struct mr_sampler {
  mr_sampler_conf_t conf;
  int64_t start, size; /* of this shard; the IndexSampler's records are [start,start+size) */
  int64_t len;         /* grain's len(sampler), over all epochs and shards; 0: endless */
  int64_t local_len;   /* positions that this shard's DataLoader walks; 0: endless */
} mr_sampler_t;

/* Checks conf and fills *s.  MR_ERR_CONFIG with a sentence for a shard outside [0,n_shards) or
   without records, a shuffle without a seed, no records, or a length beyond 2^62. */
mr_err_t mr_sampler_init(mr_sampler_t *s, const mr_sampler_conf_t *conf, mr_diag_t *diag);

/* Returns whether the calls below take position i without overflow: i >= 0, and, with several
   shards, i < 2^61 / n_shards. */
bool mr_sampler_reaches(const mr_sampler_t *s, int64_t i);

/* Returns the global index, >= 0, that this shard's DataLoader requests at its own position i;
   mr_sampler_reaches(s, i) must hold. */
int64_t mr_sampler_index(const mr_sampler_t *s, int64_t i);

/* Writes the record in [0,n_records) at a global index >= 0, and the Philox key of its generator, 0
   without a seed.  Each thread caches the shuffle's keys of an epoch for its next call. */
void mr_sampler_at(const mr_sampler_t *s, int64_t index, int64_t *record, uint64_t *key);

/* The inverse of both: writes the positions i >= 0 of this shard's DataLoader in epoch `epoch` of
   its own, counted as mr_sampler_at counts them, at which it gives `record`, to position[0,2) and
   returns how many there are, [0,2].  Not for strided shards (sequential without whole_shards).
   epoch times size < 2^62. */
int mr_sampler_from(const mr_sampler_t *s, int64_t epoch, int64_t record, int64_t position[2]);

/* Parses "I/N" into shard and n_shards, 0 <= I < N <= 2^31; NULL or "" gives 0/1.  Returns false
   for any other text. */
bool mr_sampler_parse_shard(const char *text, int64_t *shard, int64_t *n_shards);

/* Returns the image of i in [0,max_index] under grain's index_shuffle with this seed (permute.c): a
   pure function; any thread.  bijective: a true permutation also where max_index is 4^k; grain's
   maps two indices to one there (base/index_shuffle.h).  Each thread caches the keys of its last
   few seeds and lengths, and whole permutations of short lengths. */
uint64_t mr_permute(uint64_t i, uint64_t max_index, uint32_t seed, bool bijective);

/* The inverse: writes each i in [0,max_index] whose image is `image`, rising, to from[0,2) and
   returns how many there are: one, but where the permutation is none (mr_permutes) none or two of a
   few images; none of an image above max_index.  Pure; any thread. */
int mr_permute_from(uint64_t image, uint64_t max_index, uint32_t seed, bool bijective,
                    uint64_t from[2]);

/* Returns whether mr_permute on [0,n), n >= 1, is a permutation for every seed. */
bool mr_permutes(int64_t n, bool bijective);

#endif
