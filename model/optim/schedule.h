/* Learning rates as plain functions of the step. */
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
  float end;             /* at the last step; not of rsqrt */
  int64_t warmup, total; /* steps; total <= warmup: constant after the warm-up, but for rsqrt */
  mr_schedule_kind_t kind;
} mr_schedule_t;

/* The learning rate of a step, which counts from 0: from 0 linearly to peak over warmup steps, then
   by kind, and end from total on.  Source: optax.warmup_cosine_decay_schedule, optax.join_schedules
   of two optax.linear_schedule. */
float mr_schedule_at(const mr_schedule_t *s, int64_t step);

MR_END_DECLS

#endif
