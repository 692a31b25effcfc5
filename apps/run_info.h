/* What a run's folder tells about the run. */
#ifndef MR_APPS_RUN_INFO_H
#define MR_APPS_RUN_INFO_H

#include <stdbool.h>
#include <stdint.h>

#include "apps/run_dir.h"

typedef struct mr_run_info {
  char path[MR_RUN_PATH];
  int64_t step, total;
  double loss;        /* mean of the last 20 steps; NAN: unknown, like the next */
  double valid, test; /* what the model is judged by (accuracy, mean_error), the newest */
  double rate;        /* images/s over the newest steps */
  double elapsed_s;   /* of its last part */
  char state[24];     /* "finished", "stopped", "running", "broken off" */
  char data[24], ledger[20];
  double *loss_at; /* [n_loss] loss of each step, NAN where there is none; heap */
  int64_t n_loss;
} mr_run_info_t;

/* Reads metrics.jsonl of a folder.  MR_ERR_IO if it holds no run. */
mr_err_t mr_run_info_read(const char *path, mr_run_info_t *out, mr_diag_t *diag);
void mr_run_info_free(mr_run_info_t *r);

/* Mean loss of the 20 steps up to step; NAN without any. */
double mr_run_info_loss(const mr_run_info_t *r, int64_t step);

#endif
