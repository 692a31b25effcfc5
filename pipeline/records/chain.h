/* The chain of record stages before an input port.  The step stage that reads the port runs it: by
   position with mr_chain_fill, or in order and without holes with mr_walk_next and mr_picks_fill.

   Unless a call says otherwise, a failure below 0 has its sentence in s->diag.  Implemented in
   chain_run.c (by position), walk.c and walk_skip.c (in order); mr_in_chain in port.c. */
#ifndef MR_PIPELINE_RECORDS_CHAIN_H
#define MR_PIPELINE_RECORDS_CHAIN_H

#include "pipeline/stage_walk.h"

MR_BEGIN_DECLS

typedef struct mr_chain mr_chain_t;
typedef struct mr_picks mr_picks_t;

/* The chain before an input port of flow RECORDS, one for each worker; owned by the graph, lives
   from open until the graph is destroyed.  NULL for a port of another flow. */
mr_chain_t *mr_in_chain(mr_stage_t *s, int port);
/* Runs positions [pos,pos+n) through the chain into slots [0,n) of buf: values, key, draw,
   excluded.  n is at most spec.batch; buf->n is left to the caller.  The stream is indexable, and a
   hole among the positions is MR_ERR_DATA.  Other failures are those of the stages.  Not for two
   threads at once with the same chain. */
mr_err_t mr_chain_fill(mr_stage_t *s, mr_chain_t *c, int64_t pos, int n, mr_buf_t *buf);
/* Announces that the fill after the next one will be of [pos,pos+n), n >= 0, so that its reads may
   begin early.  A hint: it changes no result. */
void mr_chain_then(mr_chain_t *c, int64_t pos, int n);

/* Whether a source of the chain wants to know the future. */
bool mr_chain_foresees(mr_chain_t *c);
/* Returns how many more records of the future the chain's sources want to know of; 0 for most. */
int64_t mr_chain_wants(mr_chain_t *c);
/* Announces to them that positions [pos,pos+n) will be filled after all that was announced before,
   by whichever worker.  A hint: it changes no result.  One thread at a time for all chains before
   one port. */
void mr_chain_foresee(mr_chain_t *c, int64_t pos, int64_t n);

/* ---- walking a chain: its records in order, without holes ----

   A walk finds records and appends them to a list of picks; mr_picks_fill then makes them, in any
   worker of the stage.  One worker uses a walk at a time, with that worker's own chain. */

/* A walk over the records of c, the caller's until mr_walk_destroy.  Over an indexable stream it
   visits the positions offset, offset + stride, ... of all epochs; over a sequential one the
   streams below are divided that way (grain's worker processes).  NULL without memory;
   mr_walk_destroy takes NULL. */
mr_walk_t *mr_walk_create(mr_chain_t *c, int64_t offset, int64_t stride);
void mr_walk_destroy(mr_walk_t *w);

/* Appends the next record before position `until` to picks: MR_OK.  MR_END after the last one, or
   when the graph stops; *more is true if the stream continues at `until`: the walk waits there, and
   a call with a larger `until` returns the record.  A sequential stream ignores `until`.
   MR_ERR_DATA if the stream is endless and an epoch of it holds no record.  On any other result
   than MR_OK picks is unchanged. */
mr_err_t mr_walk_next(mr_stage_t *s, mr_chain_t *c, mr_walk_t *w, int64_t until, mr_picks_t *picks,
                      bool *more);

/* Skips n >= 0 records without making them, where the stages allow it in a time that does not grow
   with n.  MR_OK.  MR_END if fewer than n are left or the graph stops; the walk's position is then
   unspecified. */
mr_err_t mr_walk_pass(mr_stage_t *s, mr_chain_t *c, mr_walk_t *w, int64_t n);

/* Counts the records that each epoch of the indexable stream c has, by looking at one epoch.  MR_OK
   with *records; -1 if epochs may differ, so that one says nothing about the others.  MR_END or
   MR_ERR_DATA if the epoch holds none.  w is a walk over the whole stream (offset 0, stride 1)
   and keeps its position. */
mr_err_t mr_walk_epoch(mr_stage_t *s, mr_chain_t *c, mr_walk_t *w, int64_t *records);

/* The walk's whole state, in_spec.n_words numbers, into word or from it.  An indexable stream has
   one number: the positions that the walk has passed.  load returns false if a number is out of
   range; the walk is then fit only for another load or destroy. */
void mr_walk_save(const mr_walk_t *w, int64_t *word);
bool mr_walk_load(mr_walk_t *w, const int64_t *word);

/* Picks: records that a walk has found and no one has made yet, with room for n records of c.  The
   caller's until mr_picks_destroy; mr_walk_next enlarges it where needed.  NULL without memory;
   mr_picks_destroy takes NULL. */
mr_picks_t *mr_picks_create(const mr_chain_t *c, int n);
void mr_picks_destroy(mr_picks_t *p);
void mr_picks_clear(mr_picks_t *p);
/* The number of records picked, [0,...); mr_picks_clear sets it to 0. */
int mr_picks_n(const mr_picks_t *p);
/* Makes the picked records [from,from+n) into slots [0,n) of buf, as mr_chain_fill does.  Several
   workers may call it at once with one list, each with its own chain. */
mr_err_t mr_picks_fill(mr_stage_t *s, mr_chain_t *c, const mr_picks_t *p, int from, int n,
                       mr_buf_t *buf);

MR_END_DECLS

#endif
