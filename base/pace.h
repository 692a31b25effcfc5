/* How long a work of this process may take while others wait for it, and the beats by which long
   work shows that it continues: a batch of an evaluation, a piece of a file.  Who is asked for it
   by another process (ranks/job.h) says the newest beat.  Any thread; no call fails, and each holds
   a lock for a few stores. */
#ifndef MR_BASE_PACE_H
#define MR_BASE_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/decls.h"

MR_BEGIN_DECLS

typedef enum mr_pace {
  MR_PACE_LIMITED, /* no longer than those who wait will */
  MR_PACE_OPEN, /* as long as it needs: it has no beats, and nothing tells whether it continues */
  MR_PACE_BATCHES, /* as long as it continues, which batches of an evaluation show, */
  MR_PACE_TENSORS, /* pieces of tensors that are hashed and written to a file, */
  MR_PACE_VALUES,  /* or values that come from other processes, perhaps in pieces */
  MR_PACE_N
} mr_pace_t;

/* The newest beat of a pace. */
typedef struct mr_beat {
  int64_t ns;      /* when it was, by mr_now_ns; 0: there was none */
  int64_t at, of;  /* the unit of work that it is in, from 1, and how many there are; 0: unknown */
  int64_t unit_ns; /* the newest beat that named this unit; 0: there was none */
} mr_beat_t;

/* Says that work of this pace continues, in unit `at` of `of`; at 0: in the same one. */
void mr_pace_beat(mr_pace_t pace, int64_t at, int64_t of);
mr_beat_t mr_pace_newest(mr_pace_t pace);
/* What a unit is called: "batch", "tensor"; NULL: it has no name.  Static. */
const char *mr_pace_unit(mr_pace_t pace);

MR_END_DECLS

#endif
