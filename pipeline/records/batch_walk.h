/* Batches of a stream in which a batch's number does not say where it begins: the workers take
   turns to find records in order, and each makes its own batches. */
#ifndef MR_PIPELINE_RECORDS_BATCH_WALK_H
#define MR_PIPELINE_RECORDS_BATCH_WALK_H

#include "base/ranges.h"
#include "pipeline/records/batch_layout.h"
#include "pipeline/stage.h"

typedef struct mr_batch_walk mr_batch_walk_t;

typedef struct mr_batch_conf {
  int64_t size;
  bool drop;   /* drops the records that do not fill a batch */
  bool across; /* batches cross epochs */
  int parts;   /* grain's worker processes: number of walks, each with its own batches, which
                  alternate */
  mr_host_t host;
  const mr_ranges_t *skip; /* steps, from 1, whose batches are empty */
  const mr_batch_resume_t
      *resume; /* where a number leads that is given alone; NULL: to the start */
} mr_batch_conf_t;

/* How many numbers the state of the batches has, over a stream of this spec; 1 for one walk over an
   indexable stream. */
int mr_batch_walk_words(const mr_spec_t *in, int parts);

/* Opens the walks of a batch stage, for s->start_position, s->start_word, s->start_number or
   s->start_record; the first step seeks there.  *out is the caller's until mr_batch_walk_close,
   also after a failure.  MR_OK or MR_ERR_NOMEM, with a sentence. */
mr_err_t mr_batch_walk_open(mr_stage_t *s, mr_batch_conf_t conf, mr_batch_walk_t **out);
void mr_batch_walk_close(mr_batch_walk_t *t); /* NULL is fine */

/* Gives the worker's next batch; blocks.  MR_OK; MR_END when the stream is over, the graph stops or
   every consumer is gone; or a failure. */
mr_err_t mr_batch_walk_step(mr_stage_t *s, mr_batch_walk_t *t);

#endif
