/* What transforms that give a new graph share. */
#ifndef MR_MODEL_TRANSFORMS_BUILD_H
#define MR_MODEL_TRANSFORMS_BUILD_H

#include "model/ir/inline.h"

/* A graph with f's inputs and body; (*out)[f->n_out + more] begins with its results.  A failure
   is left in its diag; NULL without memory. */
mr_fn_t *mr__begin(const mr_fn_t *f, int more, mr_var_t ***out);
/* Returns out[n_out] from g, opens what is spent, clears dead code and sets *to; a failed g is
   destroyed. */
mr_err_t mr__finish(mr_fn_t *g, int n_out, mr_var_t *const *out, mr_fn_t **to, mr_diag_t *diag);
/* The equations of g that are spent (mr_op_def.spent) in their open form, where they stood. */
mr_err_t mr__open_spent(mr_fn_t *g);
/* What an op's spend rule does for the functions in attribute name of e, an equation of f: they
   become what runs where reverse mode goes through them (mr_op_def.spend). */
mr_err_t mr__spend_called(mr_fn_t *f, mr_eqn_t *e, const char *name);
/* For vjp rules: whether the reverse sweep over g wants the cotangent of v, a var of g.  It does
   not where v is constant to what is differentiated; a rule that sweeps over a function's body must
   then take v as constant too, since the body may have no way back from it. */
bool mr__wants(const mr_fn_t *g, const mr_var_t *v);
/* g->in[wrt[i]]; MR_ERR_SHAPE in g's diag where wrt[i] is not in [0,n_in) or not of floats. */
mr_var_t **mr__pick(mr_fn_t *g, int n_in, int n, const int *wrt, const char *who);
/* Puts e, an equation of g, at the end of g's list, which a pass has emptied to write it anew. */
mr_err_t mr__keep(mr_fn_t *g, mr_eqn_t *e);

#endif
