/* Which values of a function may have a tangent.  Sweeps go through those alone, and the reach
   rules of ops that call functions are built on it.  Nothing here fails. */
#ifndef MR_MODEL_TRANSFORMS_REACH_H
#define MR_MODEL_TRANSFORMS_REACH_H

#include "model/ir/op.h"

/* moves, by var id: set for vars that have a tangent.  Sets it for the results of eqn[n] that may
   have one in consequence. */
void mr__eqn_moves(int n, mr_eqn_t *const *eqn, bool *moves);
/* Sets out[called->n_out] to whether an output may have a tangent when the inputs in[called->n_in]
   have one. */
void mr__call_moves(const mr_fn_t *called, const bool *in, bool *out);
/* The same for a loop's body, whose first n_carry outputs become its inputs from first_carry on.  A
   carry that gets a tangent in any step counts as having one from the start; in[] is updated
   too. */
void mr__loop_moves(const mr_fn_t *body, int first_carry, int n_carry, bool *in, bool *out);
/* The reach rule of ops that call the function in attribute "jaxpr" once. */
void mr__call_reach(const mr_eqn_t *e, const bool *in, bool *out);

#endif
