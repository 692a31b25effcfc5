/* A program: units (unit.h) as one loop over blocks that stay in the first-level cache, spread over
   the team's threads.  Elementwise results do not depend on how the loop is cut; sums are cut by
   sizes alone. */
#ifndef MR_MODEL_CPU_PROGRAM_H
#define MR_MODEL_CPU_PROGRAM_H

#include "base/err.h"
#include "model/exec/call.h"

/* What a program can hold: equations, and operands and results beside them. */
#define MR_PROGRAM_EQNS 72
#define MR_PROGRAM_ENDS 32

/* Fills c->run for eqn[n_eqn], in an order in which they can run, from values in[n_in] (c->in) to
   out[n_out] (c->out).  All results have one number of elements, but for those of reductions.
   MR_ERR_NORULE: an op that has no unit; MR_ERR_SHAPE: sizes that do not fit, an out that no
   equation computes, too many equations or values. */
mr_err_t mr__program_lower(mr_call_t *c, int n_eqn, mr_eqn_t *const *eqn, int n_in,
                           mr_var_t *const *in, int n_out, mr_var_t *const *out, mr_diag_t *diag);
/* The same for c's own equation. */
mr_err_t mr__program_one(mr_call_t *c, mr_diag_t *diag);

#endif
