/* What transforms that build a new graph share.  build.c implements this header, but for spent.c
   (mr__open_spent, mr__spend_called), grad.c (mr__wants) and reach.c (mr__eqn_moves and below). */
#ifndef MR_MODEL_TRANSFORMS_BUILD_H
#define MR_MODEL_TRANSFORMS_BUILD_H

#include "model/ir/fn.h"
#include "model/ir/op.h"

/* Returns a new graph with f's inputs and body, for mr__finish.  *out points to f->n_out + more
   vars, of which the first are its results and the others NULL; the list belongs to the graph.  A
   failure is left in the graph's diag; NULL only if the reserve (mem.h) is used up. */
mr_fn_t *mr__begin(const mr_fn_t *f, int more, mr_var_t ***out);
/* Makes out[n_out] the outputs of g, opens spent equations and removes dead code.  MR_OK: *to is g,
   the caller's.  If g has failed, or fails here, it is destroyed, its sentence is in diag and its
   code is returned. */
mr_err_t mr__finish(mr_fn_t *g, int n_out, mr_var_t *const *out, mr_fn_t **to, mr_diag_t *diag);
/* Replaces each equation of g that is spent (mr_op_def.ad.spent) by its open form.  MR_OK or the
   failure in g->diag. */
mr_err_t mr__open_spent(mr_fn_t *g);
/* For the spend rule of an op that calls functions: replaces the functions in attribute `name` of
   e, an equation of f, by copies all of whose equations are spent (mr_op_def.ad.spend).  MR_OK,
   also if there is nothing to spend, or the failure in f->diag. */
mr_err_t mr__spend_called(mr_fn_t *f, mr_eqn_t *e, const char *name);
/* For vjp rules: whether the reverse sweep over g needs the cotangent of v, a var of g.  false if v
   is constant in the derivative; a rule that sweeps over a function's body must then treat v as
   constant too, since the body may hold ops without a vjp rule behind it. */
bool mr__wants(const mr_fn_t *g, const mr_var_t *v);
/* Returns a list of the inputs g->in[wrt[i]], i in [0,n), owned by g.  If a wrt[i] is not in
   [0,n_in) or not of floats, g fails with MR_ERR_SHAPE and a sentence that begins with `who`, and
   entries of the list may be NULL. */
mr_var_t **mr__pick(mr_fn_t *g, int n_in, int n, const int *wrt, const char *who);
/* Appends e, an equation of g, to g's list, which a pass has emptied to rewrite it.  MR_OK, or
   MR_ERR_NOMEM in g->diag. */
mr_err_t mr__keep(mr_fn_t *g, mr_eqn_t *e);

/* Which values of a function may have a tangent: sweeps go through those alone, and the reach rules
   of ops that call functions are built on it.  Nothing below fails.

   moves, by var id: set for vars that have a tangent.  Sets it for the results of eqn[n] that may
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
