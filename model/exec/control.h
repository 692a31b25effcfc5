/* How scan, while and cond run on any backend: the host loops over graphs inside the call, or
   chooses one, and reads an index or a condition through the backend's copy.  Rules for a backend's
   lower to name. */
#ifndef MR_MODEL_EXEC_CONTROL_H
#define MR_MODEL_EXEC_CONTROL_H

#include "base/err.h"
#include "model/exec/call.h"

/* MR_ERR_NOMEM, or why a graph inside cannot be compiled. */
mr_err_t mr__scan_lower(mr_call_t *c, mr_diag_t *diag);
mr_err_t mr__while_lower(mr_call_t *c, mr_diag_t *diag);
mr_err_t mr__cond_lower(mr_call_t *c, mr_diag_t *diag);

#endif
