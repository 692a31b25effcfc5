/* Counts records in a stream of batches with skipped steps: how many come before a batch, and which
   batch holds one. */
#ifndef MR_STAGES_LEFT_OUT_H
#define MR_STAGES_LEFT_OUT_H

#include "base/ranges.h"

typedef struct mr_left_out {
  const mr_ranges_t *steps; /* from 1, whose batches are empty */
  int64_t size;             /* >= 1: records of a full batch */
  int64_t batches, records; /* of an epoch, whose last batch may be short; 0: all batches are
                               full */
} mr_left_out_t;

/* Records in batches [0,n) without those of skipped steps; n times an epoch's records < 2^62.
   O(rows of steps).  Cannot fail. */
int64_t mr_left_out_before(const mr_left_out_t *t, int64_t n);

/* The number of the batch that holds record >= 0, counted without skipped ones; `most` if no batch
   in [0,most) does. */
int64_t mr_left_out_batch(const mr_left_out_t *t, int64_t record, int64_t most);

#endif
