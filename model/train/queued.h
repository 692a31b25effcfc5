/* The time of a training step on a device that has always something to do: steps are queued behind
   each other, and rows of them are timed by the device's own clock (mr_queue_ops_t.clock), or on a
   device without one by the host's, which then waits at the end of each row. */
#ifndef MR_MODEL_QUEUED_H
#define MR_MODEL_QUEUED_H

#include "model/exec/backend.h"
#include "model/train/train.h"

MR_BEGIN_DECLS

typedef struct mr_queued {
  const mr_device_t *device;
  mr_train_step_t *step; /* whose two fields lie on the device (mr_train_config_t.there) */
  mr_params_t *params;
  const void *field[2]; /* the host's pictures, in pages of their own, and labels, 64-aligned, that
                           every step reads */
  size_t bytes[2];
  int64_t warm_up; /* steps at least, and as many as take a second */
  int64_t steps;   /* at most; 0: 200, or as many as take 20 s, but 5 at least */
} mr_queued_t;

typedef struct mr_queued_times {
  double step_s;   /* of a step whose batch stays on the device, the median of rows */
  double copied_s; /* of a step whose batch is copied ahead of it, as stage to-device does */
  double warm_up_s;
  int64_t steps; /* of all rows of one figure */
  int rows;
  bool by_device; /* the times are the device's */
  float loss[2];  /* of the first two steps of all */
} mr_queued_times_t;

/* Runs warm-up and steps, without and with copies.  MR_OK; MR_ERR_NOMEM, MR_ERR_UNAVAILABLE or
   another failure of a step: *out is then undefined.  The step's params are those of the steps that
   were run. Blocks; one thread. */
mr_err_t mr_queued_measure(const mr_queued_t *q, mr_queued_times_t *out, mr_diag_t *diag);

MR_END_DECLS

#endif
