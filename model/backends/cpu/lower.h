/* Lowering equations for the CPU.  Called by the executor; implemented in lower.c and
   elementwise.c. */
#ifndef MR_MODEL_CPU_LOWER_H
#define MR_MODEL_CPU_LOWER_H

#include "base/err.h"
#include "model/exec/call.h"

/* mr_backend_t.lower: MR_OK; MR_ERR_NORULE if the CPU has no kernel for the op or its dtypes;
   MR_ERR_SHAPE, MR_ERR_UNAVAILABLE or MR_ERR_NOMEM from the op's own rule. */
mr_err_t mr__cpu_lower(mr_call_t *c, mr_diag_t *diag);
/* The same for an op of kind MR_OP_ELEMENTWISE: MR_OK, or MR_ERR_NORULE for its dtypes. */
mr_err_t mr__cpu_pointwise(mr_call_t *c, mr_diag_t *diag);
/* mr_target_t.element: returns what the kernel of op gives for one element. */
float mr__cpu_element(const mr_op_def_t *op, float a, float b);

#endif
