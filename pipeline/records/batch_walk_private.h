/* The inside of a walk over batches: finding them (batch_walk.c), seeking one (batch_go_to.c). */
#ifndef MR_PIPELINE_RECORDS_BATCH_WALK_PRIVATE_H
#define MR_PIPELINE_RECORDS_BATCH_WALK_PRIVATE_H

#include "pipeline/records/batch_walk.h"
#include "pipeline/records/chain.h"
#include "pipeline/stage_walk.h"

/* Records found for one batch. */
typedef struct found_batch {
  mr_picks_t *picks;
  bool over;                       /* no batch: the stream has ended */
  int64_t number, epoch, position; /* number: of the batch, from 0 */
  int64_t *word;                   /* [words]: the state after it */
} mr__found_batch_t;

struct mr_batch_walk {
  mr_batch_conf_t conf;
  _Alignas(64) _Atomic int64_t turn; /* number of the batch taken next: mr_turn_pass hands the other
                                        members to the mr_turn_wait that sees it */

  /* the members below belong to the worker whose turn it is */
  mr_walk_t **walk; /* [parts] */
  int64_t number;   /* of the batch found next, from 0 */
  int64_t part;     /* the part that gives the next batch */
  int64_t records;  /* found so far */
  int64_t kept;     /* of these, not in skipped steps; only after seeking a record */
  int cut;          /* records that the first batch omits */
  int64_t short_of; /* records left over when the stream ended without a batch */
  int words, words_part;
  int64_t *given; /* [parts * words_part]: each walk's state after the last batch that it gave,
                     which is what grain's processes report; records passed since do not count */
  mr__found_batch_t ahead;
  mr__found_batch_t *mine; /* [workers]: used by that worker alone */
  int n_workers;
  int64_t *next; /* [workers] number of the worker's next batch */
};

/* Saves the state of a part's walk as the one after the last batch that it gave. */
void mr__batch_note(mr_batch_walk_t *t, int64_t part);

/* Resumes from the words of a state; MR_ERR_CONFIG with a sentence on an impossible number. */
mr_err_t mr__batch_load(mr_stage_t *s, mr_batch_walk_t *t, const int64_t *word);

/* Finds the next batch: MR_OK, with p->over if the stream has ended; MR_END when the graph stops;
   or a failure. */
mr_err_t mr__batch_find(mr_stage_t *s, mr_batch_walk_t *t, mr__found_batch_t *p);

/* Seeks the stage's start, so that the next batch found is the first one.  Results as above. */
mr_err_t mr__batch_go_to_start(mr_stage_t *s, mr_batch_walk_t *t);

/* Seeks s->start_record: finds the batch that holds it, which then begins with it.  Results as
   above. */
mr_err_t mr__batch_go_to_record(mr_stage_t *s, mr_batch_walk_t *t);

#endif
