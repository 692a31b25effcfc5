/* Derivatives of an op that gives the one or the other of its two operands: max and min. */
#ifndef MR_MODEL_OPS_TIE_H
#define MR_MODEL_OPS_TIE_H

#include "model/ops/op.h"

/* The operand that came out gets all; operands that are equal get half each, as in jax. */
mr_err_t mr__tie_jvp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout);
mr_err_t mr__tie_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din);

#endif
