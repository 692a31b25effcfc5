/* The set of steps that an earlier run's file has records of, as ascending ranges, because nearly
   all of a run's steps are in it.  One thread at a time. */
#ifndef MR_SINKS_TOLD_STEPS_H
#define MR_SINKS_TOLD_STEPS_H

#include <stdbool.h>

#include "pipeline/stage.h"

/* first and last included; at least one missing step lies between two ranges. */
typedef struct mr_told_range {
  int64_t first, last;
} mr_told_range_t;

/* All zeros is the empty set. */
typedef struct mr_told_steps {
  size_t n, room;
  mr_told_range_t *range;
} mr_told_steps_t;

/* Adds a step; one that is in the set already is fine.  Returns false without memory, with the set
   unchanged. */
bool mr_told_steps_add(mr_told_steps_t *t, int64_t step);

/* Removes the steps from first on. */
void mr_told_steps_forget(mr_told_steps_t *t, int64_t first);

/* Sends a notice, with the stage's name, that names the steps in [1,last] missing from the set;
   none if no step is missing.  where: the file or folder that lacks them. */
void mr_told_steps_say_missing(const mr_told_steps_t *t, const mr_stage_t *s, const char *where,
                               int64_t last);

void mr_told_steps_fini(mr_told_steps_t *t); /* frees the ranges */

#endif
