/* A summary of a run, from its folder, and the numbers that a model is judged by, in the records of
   a run: those that no other number or member of a record is called (mr_metric_is_judged_key). */
#ifndef MR_APPS_RUN_RUN_INFO_H
#define MR_APPS_RUN_RUN_INFO_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apps/run/run_dir.h"

typedef struct mr_run_info {
  char path[MR_RUN_PATH];
  int64_t step, total;
  double loss;        /* mean of the last 20 steps; NAN if unknown, as the next three */
  double valid, test; /* newest first judged number (accuracy, mean_error) of each */
  double rate;        /* images/s over the newest steps */
  double elapsed_s;   /* of its last part, after the last resume */
  char state[24];     /* "finished", "stopped", "running", "broken off" */
  char valid_of[64];  /* the kind that `valid` is of: "valid", else the first "valid.NAME" */
  char data[24], ledger[20];
} mr_run_info_t;

/* Reads the newest lines of a folder's metrics.jsonl, whatever its length, and looks for
   validations and a test a little further back; lines that are no records are ignored.  MR_ERR_IO
   if the folder holds no run, MR_ERR_USAGE for a name that is too long, MR_ERR_NOMEM. */
mr_err_t mr_run_info_read(const char *path, mr_run_info_t *out, mr_diag_t *diag);

/* Sets *loss to the mean loss of the 20 steps up to step, which it looks for in the file; NAN if
   none is known.  MR_OK or MR_ERR_NOMEM. */
mr_err_t mr_run_info_loss(const mr_run_info_t *r, int64_t step, double *loss, mr_diag_t *diag);

/* Returns the first of these numbers in a record of metrics.jsonl behind the member `after`, or in
   all of it if that is NULL.  NULL without one.  A null is a NaN.  It belongs to the record
   and lives as long as it. */
const cJSON *mr_judged(const cJSON *record, const cJSON *after);

/* Writes each of them after `before` into text[0,size), size >= 32: ", accuracy 0.4100"; "" without
   any; those for which there is no room are counted, ", and 3 more".  Names are escaped for a
   terminal. */
void mr_judged_text(const cJSON *record, const char *before, char *text, size_t size);

#endif
