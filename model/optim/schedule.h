/* Learning-rate schedules: plain functions of the step. */
#ifndef MR_MODEL_OPTIM_SCHEDULE_H
#define MR_MODEL_OPTIM_SCHEDULE_H

#include <stdint.h>

#include "base/decls.h"

MR_BEGIN_DECLS

typedef enum mr_schedule_kind {
  MR_SCHEDULE_COSINE, /* half a cosine to end at total; Loshchilov and Hutter, "SGDR" (2017) */
  MR_SCHEDULE_LINEAR, /* a straight line to end at total */
  MR_SCHEDULE_RSQRT   /* peak sqrt(warmup / step), warmup at least 1; Vaswani et al. (2017) */
} mr_schedule_kind_t;

typedef struct mr_schedule {
  float peak;            /* the learning rate after the warm-up */
  float end;             /* the learning rate from step total on; rsqrt ignores it */
  int64_t warmup, total; /* steps; total <= warmup: constant after the warm-up, but for rsqrt */
  mr_schedule_kind_t kind;
} mr_schedule_t;

/* Returns the learning rate of a step, counted from 0: it rises linearly from 0 to peak over
   warmup steps, then follows kind, and is end from step total on.  Cannot fail.  Source:
   optax.warmup_cosine_decay_schedule, optax.join_schedules of two optax.linear_schedule. */
float mr_schedule_at(const mr_schedule_t *s, int64_t step);

MR_END_DECLS

#endif
