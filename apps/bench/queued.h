/* A training step on a device that has always something to do: steps are queued behind each other,
   and rows of them are timed by the device's own clock (mr_backend_t.clock), or on a device without
   one by the host's, which then waits at the end of each row. */
#ifndef MR_APPS_BENCH_QUEUED_H
#define MR_APPS_BENCH_QUEUED_H

#include "apps/bench/bench.h"
#include "model/exec/backend.h"
#include "model/train/train.h"

typedef struct mr_bench_queued {
  const mr_backend_t *device;
  mr_train_step_t *step; /* whose fields lie on the device (mr_train_config_t.there) */
  mr_params_t *params;
  const void *field[2]; /* the host's pictures, in pages of their own, and labels, 64-aligned, that
                           every step reads */
  size_t bytes[2];
  int64_t batch, warm_up; /* warm_up steps at least, and as many as take a second */
  int64_t steps;          /* 0: 200, or as many as take 20 s, but 5 at least */
} mr_bench_queued_t;

/* Adds step_s and images_per_s, of steps whose batch stays on the device; step_with_copy_s and
   images_per_s_with_copy, of steps whose batch is copied ahead of each, as stage to-device does;
   both are medians of rows.  Also steps, rows, warm_up_s, device_clock (1: the times are the
   device's), and first_loss and second_loss, those of the first steps of all.  MR_OK, or the
   failure of a step; MR_ERR_NOMEM.  Blocks; one thread. */
mr_err_t mr_bench_queued(const mr_bench_queued_t *q, mr_bench_t *out, mr_diag_t *diag);

#endif
