/* The tensors alive at the peak as a profile for pprof: one sample per tensor, with its scopes as
   the stack. */
#ifndef MR_APPS_MEASURE_MEM_PPROF_H
#define MR_APPS_MEASURE_MEM_PPROF_H

#include "model/exec/mem_report.h"

/* Writes the profile, gzipped.  MR_ERR_IO with the path in the sentence, MR_ERR_NOMEM, or
   MR_ERR_UNAVAILABLE in a build without protobuf-c. */
mr_err_t mr_mem_pprof(const mr_mem_report_t *r, const char *path, mr_diag_t *diag);

#endif
