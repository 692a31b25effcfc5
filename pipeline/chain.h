/* The chain of record stages before an input port, run by the step stage that reads it: by position
   with mr_chain_fill, or in order, without the holes, with mr_walk_next and mr_plan_fill. */
#ifndef MR_PIPELINE_CHAIN_H
#define MR_PIPELINE_CHAIN_H

#include "pipeline/stage_walk.h"

MR_BEGIN_DECLS

typedef struct mr_chain mr_chain_t;
typedef struct mr_plan mr_plan_t;

/* The chain before an input port of flow RECORDS. */
mr_chain_t *mr_in_chain(mr_stage_t *s, int port);
/* Runs positions [pos,pos+n) through the chain into slots [0,n) of buf (fields, key, draw,
   excluded). The stream is indexable and none of the positions a hole (MR_ERR_DATA).  One worker at
   a time per s. */
mr_err_t mr_chain_fill(mr_stage_t *s, mr_chain_t *c, int64_t pos, int n, mr_buf_t *buf);
/* The fill after the next one will be of [pos,pos+n), n >= 0: a wish for its reads to begin. */
void mr_chain_then(mr_chain_t *c, int64_t pos, int n);

/* ---- walking a chain: its records in order, without holes ----

   A walk finds records and appends them to a plan; mr_plan_fill then makes them, in any worker of
   the stage.  A walk is used by one worker at a time, with that worker's own chain. */

/* A walk over the records of c.  Over an indexable stream it visits the positions offset, offset +
   stride, ... of all epochs; over a sequential one the streams below are taken apart so (grain's
   worker processes).  NULL when memory is short; mr_walk_destroy takes NULL. */
mr_walk_t *mr_walk_create(mr_chain_t *c, int64_t offset, int64_t stride);
void mr_walk_destroy(mr_walk_t *w);

/* Appends the next record: MR_OK; MR_END after the last one, or when the graph ends; MR_AGAIN if
   it would stand at position until or behind (indexable streams; the walk then stands there). */
mr_err_t mr_walk_next(mr_stage_t *s, mr_chain_t *c, mr_walk_t *w, int64_t until, mr_plan_t *plan);

/* Moves n >= 0 records on without finding them, where the stages allow it in a time that does not
   grow with n: MR_OK; MR_END if there are not n or the graph ends: it then stands anywhere. */
mr_err_t mr_walk_pass(mr_stage_t *s, mr_chain_t *c, mr_walk_t *w, int64_t n);

/* How many records each epoch of the indexable stream c has, by looking at one; MR_AGAIN: nothing
   says that the others have as many.  w is a walk over all of it and stays where it is. */
mr_err_t mr_walk_epoch(mr_stage_t *s, mr_chain_t *c, mr_walk_t *w, int64_t *records);

/* The walk's whole state: in_spec.n_words numbers.  An indexable stream has one: how many
   positions the walk has passed. */
void mr_walk_save(const mr_walk_t *w, int64_t *word);
bool mr_walk_load(mr_walk_t *w, const int64_t *word); /* false: a number that cannot be */

/* A plan with room for n records of c (it grows if need be); NULL when memory is short. */
mr_plan_t *mr_plan_create(const mr_chain_t *c, int n);
void mr_plan_destroy(mr_plan_t *p);
void mr_plan_clear(mr_plan_t *p);
int mr_plan_n(const mr_plan_t *p);
/* Makes the plan's records [from,from+n) into slots [0,n) of buf. */
mr_err_t mr_plan_fill(mr_stage_t *s, mr_chain_t *c, const mr_plan_t *p, int from, int n,
                      mr_buf_t *buf);

MR_END_DECLS

#endif
