/* millrace mem --plan: proposes meshes for devices of a size. */
#ifndef MR_APPS_MEASURE_MEM_PLAN_H
#define MR_APPS_MEASURE_MEM_PLAN_H

#include "apps/cli/cli.h"

/* Prints the meshes of --plan's devices that fit, by predicted time, and why others do not.  MR_OK;
   MR_ERR_USAGE for a wrong flag; MR_ERR_NOMEM if none fits, with the one that needs least; else the
   failures of planning the model. */
mr_err_t mr_mem_plan(const mr_args_t *a, mr_diag_t *diag);

#endif
