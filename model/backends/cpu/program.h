/* Programs: a fused loop of units (unit.h) over blocks that stay in the first-level cache, shared
   by the team's threads.  Elementwise results do not depend on how the loop is divided; sums are
   divided by sizes alone.  Implemented in program.c (lowering), program_run.c and
   program_columns.c. */
#ifndef MR_MODEL_CPU_PROGRAM_H
#define MR_MODEL_CPU_PROGRAM_H

#include "base/err.h"
#include "model/exec/call.h"

/* The most equations of a program, and the most operands or results. */
#define MR_PROGRAM_EQNS 72
#define MR_PROGRAM_ENDS 32

/* Fills c->run for eqn[n_eqn], in an order in which they can run, from values in[n_in] (c->in) to
   out[n_out] (c->out).  All results have the same number of elements, except those of reductions.
   MR_OK; MR_ERR_NORULE for an op without a unit; MR_ERR_SHAPE for sizes that do not fit, an out
   that no equation computes, too many equations or values; MR_ERR_NOMEM. */
mr_err_t mr__program_lower(mr_call_t *c, int n_eqn, mr_eqn_t *const *eqn, int n_in,
                           mr_var_t *const *in, int n_out, mr_var_t *const *out, mr_diag_t *diag);
/* The same for c's own equation; returns the same errors. */
mr_err_t mr__program_one(mr_call_t *c, mr_diag_t *diag);

#endif
