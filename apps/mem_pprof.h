/* What is alive at the peak, as a profile that pprof reads: one sample a tensor, with the scopes it
   stands in as its stack. */
#ifndef MR_APPS_MEM_PPROF_H
#define MR_APPS_MEM_PPROF_H

#include "model/exec/mem_report.h"

/* MR_ERR_IO names the file. */
mr_err_t mr_mem_pprof(const mr_mem_report_t *r, const char *path, mr_diag_t *diag);

#endif
