/* Learning rates as plain functions of the step. */
#ifndef MR_MODEL_OPTIM_SCHEDULE_H
#define MR_MODEL_OPTIM_SCHEDULE_H

#include <stdint.h>

typedef struct mr_schedule {
  float peak;            /* the learning rate after the warm-up */
  float end;             /* at the last step */
  int64_t warmup, total; /* steps; total <= warmup: constant after the warm-up */
} mr_schedule_t;

/* optax.warmup_cosine_decay_schedule from 0: linear to peak over warmup steps, then half a cosine
   to end at total, and end after it.  step counts from 0. */
float mr_schedule_at(const mr_schedule_t *s, int64_t step);

#endif
