/* A walk: gives records one after the other, with a few numbers as its state; and the calls for its
   next and skip.  Walks over the inputs lie below it. */
#ifndef MR_PIPELINE_STAGE_WALK_H
#define MR_PIPELINE_STAGE_WALK_H

#include "pipeline/stage.h"

MR_BEGIN_DECLS

typedef struct mr_walk mr_walk_t;

struct mr_walk_def {
  /* Makes the next record this stage's next one with a single mr_walk_pull that gave MR_OK; MR_END
     when there is none. */
  mr_err_t (*next)(mr_stage_t *s, mr_walk_t *w);
  /* Moves on as n >= 1 calls of next would, without finding the records (mr_walk_skip): MR_OK, or
     MR_END where there are not n and the walk may stand anywhere.  NULL: calls next. */
  mr_err_t (*skip)(mr_stage_t *s, mr_walk_t *w, int64_t n);

  bool deals;    /* a part (offset, stride) of its stream is made of every stride-th of its inputs,
                    whole, and not of a part of each; the walk may then have no walk below */
  bool one_each; /* each record is the next one of its only input */
  int n_words;   /* numbers of state that next keeps in mr_walk_words, zero at the start */
  int (*n_walks)(const mr_stage_t *s); /* walks over parts of input 0; NULL: one over each input */
};

/* ---- calls for next: w is the stage's own walk, those below it are numbered from 0 ---- */
int64_t *mr_walk_words(mr_walk_t *w); /* [n_words], part of the state; may have come from a file,
                                         so only 0 <= word < 2^62 is sure */
int mr_walk_n_below(const mr_walk_t *w);
mr_err_t mr_walk_pull(mr_walk_t *w, int i); /* takes the next record of walk i: MR_OK, MR_END */
void mr_walk_rewind(mr_walk_t *w, int i);   /* to its start */
/* As pull, but a hole comes as a record too: zeros, label -1, key 2^64-1; maps leave it alone. */
mr_err_t mr_walk_pull_any(mr_walk_t *w, int i);
/* The record pulled last has this generator from here on; for a walk over a part of the stream
   (offset, stride) number k stands for offset + k * stride. */
mr_err_t mr_walk_seed(mr_walk_t *w, const uint64_t key[2], int64_t k);
/* A window: pulls up to n records of walk 0 and says how many it got; then give makes number i of
   them this stage's next record.  The state that is saved is the one at the window's start and the
   stage's own words, so after a load the window is not held (-1) and is to be pulled again. */
mr_err_t mr_walk_hold(mr_walk_t *w, int64_t n, int64_t *got);
mr_err_t mr_walk_give(mr_walk_t *w, int64_t i);
int64_t mr_walk_held(const mr_walk_t *w); /* -1: no window yet, or not since a load */

/* ---- calls for skip: n >= 0, walk i as above ---- */
mr_err_t mr_walk_skip(mr_walk_t *w, int i, int64_t n);     /* MR_OK; MR_END: it stands anywhere */
mr_err_t mr_walk_skip_any(mr_walk_t *w, int i, int64_t n); /* counting holes as records */
/* As many of n as there are, into *done; walk i stands behind them. */
mr_err_t mr_walk_skip_most(mr_walk_t *w, int i, int64_t n, int64_t *done);
/* How many of `most` records walk i still has; it stays where it is. */
mr_err_t mr_walk_left(mr_walk_t *w, int i, int64_t most, int64_t *left);
mr_err_t mr_walk_next_all(mr_walk_t *w, int64_t n); /* calls next n times; MR_OK, MR_END */
void mr_walk_let_go(mr_walk_t *w); /* of the window: it is to be pulled again, as after a load */

MR_END_DECLS

#endif
