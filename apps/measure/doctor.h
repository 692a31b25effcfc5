/* What doctor says of the servers of a graph's sources, and of the ranks of a job. */
#ifndef MR_APPS_MEASURE_DOCTOR_H
#define MR_APPS_MEASURE_DOCTOR_H

#include <cjson/cJSON.h>

#include "base/err.h"
#include "pipeline/stage.h"

/* Reads the value of --rate: a number of records a second, or the folder of a run whose newest
   steps say it; 0 for NULL.  MR_ERR_USAGE for anything else. */
mr_err_t mr_doctor_rate(const char *given, double *rate, mr_diag_t *diag);

/* Measures the servers of a source, if it reads from any, and compares them with a model that takes
   `rate` records a second (0: unknown).  Takes several seconds. */
void mr_doctor_store(cJSON *report, mr_stage_t *s, double rate);

/* Adds the section about the ranks of the job: launcher, rank, where rank 0 is, which MPI library
   there is, and what is missing.  The section about devices is in the report.  Resolves the name of
   a host, which may take seconds. */
void mr_doctor_ranks(cJSON *report);

#endif
