/* What the rules of cond share. */
#ifndef MR_MODEL_CONTROL_COND_H
#define MR_MODEL_CONTROL_COND_H

#include "model/ir/op.h"

/* e's branches: *b[return value]. */
int mr__cond_branches(const mr_eqn_t *e, const mr_fn_t *const **b);
/* The equation itself: as many results as the branches give. */
mr_err_t mr__cond_emit(mr_fn_t *f, mr_var_t *index, int n, const mr_fn_t *const *branch,
                       mr_var_t *const *in, mr_eqn_t **e);
mr_err_t mr__cond_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din);

#endif
