/* The inside of a walk over batches: finding them (batch_walk.c), going to one (batch_go_to.c). */
#ifndef MR_STAGES_BATCH_WALK_PRIVATE_H
#define MR_STAGES_BATCH_WALK_PRIVATE_H

#include "pipeline/chain.h"
#include "pipeline/stage_walk.h"
#include "stages/batch_walk.h"

/* Records found for one batch. */
typedef struct planned {
  mr_plan_t *plan;
  bool over;                       /* there is none: the stream has ended */
  int64_t number, epoch, position; /* number: of the batch, from 0 */
  int64_t *word;                   /* [words]: the state after it */
} mr__planned_t;

struct mr_batch_walk {
  mr_batch_conf_t conf;
  _Alignas(64) _Atomic int64_t turn; /* number of the batch that is taken next: mr_turn_pass hands
                                        the rest to the mr_turn_wait that sees it */

  /* the rest belongs to the worker whose turn it is */
  mr_walk_t **walk; /* [parts] */
  int64_t number;   /* of the batch that is found next, from 0 */
  int64_t part;     /* whose batch comes next */
  int64_t records;  /* found so far */
  int64_t kept;     /* of them, not in steps left out; after going to a record alone */
  int cut;          /* records that the first batch leaves out */
  int64_t short_of; /* records that were left when no batch came of them */
  int words, words_part;
  int64_t *given; /* [parts * words_part]: each walk's state after the last batch that it gave.
                     That is what grain's processes report, not what finding no more passed */
  mr__planned_t ahead;
  mr__planned_t *mine; /* [workers]: touched by that worker alone */
  int n_workers;
  int64_t *next; /* [workers] number of the batch that worker makes next */
};

/* Keeps the state of a part's walk as the one after the last batch that it gave. */
void mr__batch_note(mr_batch_walk_t *t, int64_t part);

/* Goes on from the words of a state; fails with MR_ERR_CONFIG on a number that cannot be. */
mr_err_t mr__batch_load(mr_stage_t *s, mr_batch_walk_t *t, const int64_t *word);

/* Finds the next batch: MR_OK, also where p->over says that there is none; MR_END when the graph
   ends. */
mr_err_t mr__batch_plan(mr_stage_t *s, mr_batch_walk_t *t, mr__planned_t *p);

/* To where the stage's start says, so that the next batch found is the first one. */
mr_err_t mr__batch_go_to_start(mr_stage_t *s, mr_batch_walk_t *t);

/* To s->start_record; the batch that holds it is found, and begins with it. */
mr_err_t mr__batch_go_to_record(mr_stage_t *s, mr_batch_walk_t *t);

#endif
