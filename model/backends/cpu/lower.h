/* How the CPU lowers an equation. */
#ifndef MR_MODEL_CPU_LOWER_H
#define MR_MODEL_CPU_LOWER_H

#include "base/err.h"
#include "model/exec/call.h"

/* mr_backend_t.lower */
mr_err_t mr__cpu_lower(mr_call_t *c, mr_diag_t *diag);
/* An op of kind MR_OP_ELEMENTWISE. */
mr_err_t mr__cpu_pointwise(mr_call_t *c, mr_diag_t *diag);
/* mr_target_t.element */
float mr__cpu_element(const mr_op_def_t *op, float a, float b);

#endif
