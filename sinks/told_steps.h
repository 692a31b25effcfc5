/* Which steps an earlier run's file has records of: a set as ascending ranges, since nearly all of
   a run's steps are in it. */
#ifndef MR_SINKS_TOLD_STEPS_H
#define MR_SINKS_TOLD_STEPS_H

#include <stdbool.h>

#include "pipeline/stage.h"

/* first and last inclusive; at least one step lies between two ranges. */
typedef struct mr_told_range {
  int64_t first, last;
} mr_told_range_t;

/* Begins as all zeros: no step. */
typedef struct mr_told_steps {
  size_t n, room;
  mr_told_range_t *range;
} mr_told_steps_t;

/* False without memory; the set is as before.  A step that is in it already is fine. */
bool mr_told_steps_add(mr_told_steps_t *t, int64_t step);

/* Removes the steps from first on. */
void mr_told_steps_forget(mr_told_steps_t *t, int64_t first);

/* Names on standard error, after the stage's name, the steps 1..last that are not in the set; says
   nothing if there is none.  where: the file or folder that lacks them. */
void mr_told_steps_say_missing(const mr_told_steps_t *t, const mr_stage_t *s, const char *where,
                               int64_t last);

void mr_told_steps_fini(mr_told_steps_t *t); /* frees the ranges */

#endif
