/* What doctor says of the servers of a graph's sources. */
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

#endif
