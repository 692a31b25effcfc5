/* Batches of a stream whose batch boundaries are not a function of the batch's number: records are
   found in order, by the workers in turns, and made by each for itself. */
#ifndef MR_STAGES_BATCH_WALK_H
#define MR_STAGES_BATCH_WALK_H

#include "base/ranges.h"
#include "pipeline/stage.h"
#include "stages/host.h"

typedef struct mr_batch_walk mr_batch_walk_t;

typedef struct mr_batch_conf {
  int64_t size;
  bool drop;   /* leaves out what does not fill a batch */
  bool across; /* batches cross epochs */
  int parts;   /* grain's worker processes: so many walks, each with batches of its own, in turn */
  mr_host_t host;
  const mr_ranges_t *skip; /* steps, from 1, whose batches come empty */
} mr_batch_conf_t;

/* Numbers that say where the batches stand, over a stream of this spec. */
int mr_batch_walk_words(const mr_spec_t *in, int parts);

/* Goes on at s->start_position, with s->start_word if there are any. */
mr_err_t mr_batch_walk_open(mr_stage_t *s, mr_batch_conf_t conf, mr_batch_walk_t **out);
void mr_batch_walk_close(mr_batch_walk_t *t); /* NULL is fine */

mr_err_t mr_batch_walk_step(mr_stage_t *s, mr_batch_walk_t *t); /* gives the worker's next batch */

#endif
