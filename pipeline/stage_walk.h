/* A walk: gives records one after the other, with a few numbers as its state; and the calls for its
   next and skip.  Walks over the inputs are below it.

   The calls are for next and skip, while they run.  Those that return mr_err_t also pass on the
   failures of stages below, MR_ERR_NOMEM and, when the graph is cancelled, MR_ERR_CANCEL.
   Implemented in walk.c (next) and walk_skip.c (skip). */
#ifndef MR_PIPELINE_STAGE_WALK_H
#define MR_PIPELINE_STAGE_WALK_H

#include "pipeline/stage.h"

MR_BEGIN_DECLS

typedef struct mr_walk mr_walk_t;

struct mr_walk_def {
  /* Takes the next record with a single mr_walk_pull that returns MR_OK.  MR_OK; MR_END after the
     last record; or a failure. */
  mr_err_t (*next)(mr_stage_t *s, mr_walk_t *w);
  /* Skips n >= 1 records as n calls of next would, without finding them (mr_walk_skip).  MR_OK;
     MR_END if fewer are left, and the walk's position is then unspecified.  NULL: next is called n
     times. */
  mr_err_t (*skip)(mr_stage_t *s, mr_walk_t *w, int64_t n);
  /* how many walks over parts of input 0 it has; NULL: one walk over each input */

  bool deals;    /* a part (offset, stride) of its stream consists of every stride-th input as a
                    whole, not of a part of each input; the walk may then have no walk below */
  bool one_each; /* each record is the next one of its only input */
  int n_words;   /* numbers of state that next keeps in mr_walk_words, 0 at the start */
  int (*words)(const mr_stage_t *s); /* as n_words, of a planned stage; NULL: n_words */
  int (*n_walks)(const mr_stage_t *s);
};

/* ---- calls for next: w is the stage's own walk, those below it are numbered from 0 ---- */
/* [n_words], never NULL, part of the state, valid as long as w; it may come from a file, so only 0
   <= word < 2^62 is sure */
int64_t *mr_walk_words(mr_walk_t *w);
int mr_walk_n_below(const mr_walk_t *w);    /* [0,...) */
mr_err_t mr_walk_pull(mr_walk_t *w, int i); /* the next record of walk i: MR_OK, MR_END */
void mr_walk_rewind(mr_walk_t *w, int i);   /* resets walk i to its start */
/* As pull, but returns a hole as a record too: zeros, label -1, key 2^64-1; maps skip it. */
mr_err_t mr_walk_pull_any(mr_walk_t *w, int i);
/* Gives the record pulled last this generator; for a walk over a part of the stream (offset,
   stride) k counts as offset + k * stride.  MR_OK or MR_ERR_NOMEM. */
mr_err_t mr_walk_seed(mr_walk_t *w, const uint64_t key[2], int64_t k);
/* A window: hold pulls up to n records of walk 0 and sets *got, less than n once the walk has
   ended; then give makes record i in [0,got) this stage's next record.  Both return MR_OK or a
   failure.  The saved state is the one at the window's start and the stage's own words, so after a
   load the window is gone (held returns -1) and must be pulled again. */
mr_err_t mr_walk_hold(mr_walk_t *w, int64_t n, int64_t *got);
mr_err_t mr_walk_give(mr_walk_t *w, int64_t i);
/* Records in the window; -1: none yet, or not since a load. */
int64_t mr_walk_held(const mr_walk_t *w);

/* ---- calls for skip: n >= 0, walk i as above ---- */
/* MR_OK; MR_END: fewer are left, position unspecified */
mr_err_t mr_walk_skip(mr_walk_t *w, int i, int64_t n);
/* The same results, MR_OK and MR_END, but holes count as records. */
mr_err_t mr_walk_skip_any(mr_walk_t *w, int i, int64_t n);
/* Skips as many of n records as walk i still has, sets *done to how many, and leaves the walk
   behind them.  MR_OK also if they are fewer. */
mr_err_t mr_walk_skip_most(mr_walk_t *w, int i, int64_t n, int64_t *done);
/* Sets *left to how many of the next `most` records walk i still has; the walk keeps its position.
   MR_OK or a failure. */
mr_err_t mr_walk_left(mr_walk_t *w, int i, int64_t most, int64_t *left);
/* Calls next n times; MR_OK, MR_END, or its failure. */
mr_err_t mr_walk_next_all(mr_walk_t *w, int64_t n);
/* Drops the window, which must be pulled again, as after a load. */
void mr_walk_let_go(mr_walk_t *w);

MR_END_DECLS

#endif
