/* Shared by the rules of cond (cond.c, cond_vjp.c) and its lowering. */
#ifndef MR_MODEL_CONTROL_COND_H
#define MR_MODEL_CONTROL_COND_H

#include "model/ir/op.h"

/* Points *b at e's branches, which belong to e's graph, and returns their number. */
int mr__cond_branches(const mr_eqn_t *e, const mr_fn_t *const **b);
/* Appends the equation, with as many results as a branch; *e belongs to f.  MR_OK, or the failure
   in f->diag. */
mr_err_t mr__cond_emit(mr_fn_t *f, mr_var_t *index, int n, const mr_fn_t *const *branch,
                       mr_var_t *const *in, mr_eqn_t **e);
/* The vjp rule (mr_op_def_t.vjp): MR_OK, or the failure in f->diag. */
mr_err_t mr__cond_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din);

#endif
