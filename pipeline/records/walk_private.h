/* The inside of a walk, shared by finding the next record (walk.c), skipping (walk_skip.c) and
   empty streams (walk_empty.c). */
#ifndef MR_PIPELINE_RECORDS_WALK_PRIVATE_H
#define MR_PIPELINE_RECORDS_WALK_PRIVATE_H

#include "pipeline/records/chain_private.h"

enum { MR__LOOK_UP_EVERY = 1024 }; /* holes between two checks for the end of the graph */

/* What a call of mr_walk_next works with. */
typedef struct mr__walking {
  mr_stage_t *s; /* the step stage */
  mr_chain_t *c;
  int64_t until;
  mr__prog_t *prog;
  bool more; /* set by a search that has ended at `until` */
} mr__walking_t;

struct mr_walk {
  int branch;
  bool at; /* it walks the positions of an indexable branch */
  int64_t offset, stride;
  int64_t *word; /* [n_words] */
  int n_words;
  int64_t pass;      /* at: mr__pass_length */
  int64_t holes;     /* at: found since the last record */
  int64_t seen;      /* at: positions visited since mr__walk_dropped last reset it */
  mr_walk_t **below; /* [n_below] */
  int n_below;
  mr__walking_t *x; /* during a call */

  int64_t *start;  /* words of all walks below at the start of the window; NULL without one */
  mr__prog_t held; /* the window's records: record i is held.op[held_at[i],held_at[i+1]) */
  size_t *held_at;
  int64_t n_held, cap_held; /* n_held -1: no window */
};

/* Takes the next record: MR_OK; MR_END after the last one before x->until (x->more: the stream has
   not ended) or when the graph stops; or a failure. */
mr_err_t mr__walk_pull(mr_walk_t *w, mr__walking_t *x);

/* MR_OK while the graph runs; MR_END once it stops, MR_ERR_CANCEL once it has failed or is
   cancelled: a search then returns this. */
mr_err_t mr__walk_ended(const mr__walking_t *x);

/* How many numbers the states of w and of all walks below it have. */
int mr__walk_words(const mr_walk_t *w);

/* Empty streams (walk_empty.c).  MR_OK: continue the search.  MR_END: the stream is over, since it
   holds no record.  MR_ERR_DATA with a sentence: an endless stream, one epoch of which holds no
   record.  Or as mr__walk_ended. */
/* A walk over positions has found a hole; n counts those of this search, from 1. */
mr_err_t mr__walk_hole(mr_walk_t *w, mr__walking_t *x, int64_t n);
/* A filter has dropped a record; n counts those in a row, from 1. */
mr_err_t mr__walk_dropped(mr_walk_t *w, mr__walking_t *x, int64_t n);

/* The end of the positions of an indexable branch; INT64_MAX: endless. */
int64_t mr__walk_end(const mr_chain_t *c, const mr_walk_t *w);

#endif
