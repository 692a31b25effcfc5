/* Arrays for a run of a compiled function whose values do not matter. */
#ifndef MR_APPS_CLI_FN_ARRAYS_H
#define MR_APPS_CLI_FN_ARRAYS_H

#include "model/exec/exec.h"

typedef struct mr_fn_arrays {
  const mr_exec_t *x;
  void **in, **out; /* heap, 64-aligned; out repeats donated inputs */
} mr_fn_arrays_t;

/* Fills *a with zeros for the inputs and room for the outputs of x, which a may not outlive.
   MR_OK or MR_ERR_NOMEM; the caller calls fini in both cases. */
mr_err_t mr_fn_arrays_init(mr_fn_arrays_t *a, const mr_exec_t *x, mr_diag_t *diag);
void mr_fn_arrays_fini(mr_fn_arrays_t *a); /* zeroed or twice is fine */

#endif
