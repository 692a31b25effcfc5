/* Which values of a function may have a tangent: what a sweep must walk through, and what the
   op.reach rules of ops that call functions answer. */
#ifndef MR_MODEL_TRANSFORMS_REACH_H
#define MR_MODEL_TRANSFORMS_REACH_H

#include "model/ir/op.h"

/* Adds to moves (by var id) the results of eqn[n] that may have a tangent when the vars that are
   set already have one. */
void mr__eqn_moves(int n, mr_eqn_t *const *eqn, bool *moves);
/* out[n_out]: whether an output may have a tangent when the inputs in[n_in] have one. */
void mr__call_moves(const mr_fn_t *called, const bool *in, bool *out);
/* The same of a loop's body, whose first n_carry outputs become its inputs from first_carry on:
   a carry that gets a tangent in some step has one from the start, and so in in[] too. */
void mr__loop_moves(const mr_fn_t *body, int first_carry, int n_carry, bool *in, bool *out);
/* The reach rule of ops that call the function in attribute "jaxpr" once. */
void mr__call_reach(const mr_eqn_t *e, const bool *in, bool *out);

#endif
