/* scan, while and cond on any backend: within one call, the host loops over compiled graphs or
   chooses one of them, and reads the index or condition through the backend's copy.  A backend's
   lower calls these rules. */
#ifndef MR_MODEL_EXEC_CONTROL_H
#define MR_MODEL_EXEC_CONTROL_H

#include "base/err.h"
#include "model/exec/call.h"

/* Each fills c for its equation and returns MR_OK, MR_ERR_NOMEM, or the error of compiling a graph
   inside. c->fini frees c->state, also after a failure. */
mr_err_t mr__scan_lower(mr_call_t *c, mr_diag_t *diag);
mr_err_t mr__while_lower(mr_call_t *c, mr_diag_t *diag);
mr_err_t mr__cond_lower(mr_call_t *c, mr_diag_t *diag);

#endif
