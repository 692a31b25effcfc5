/* What ops that call a function share: the function lies in an attribute, a copy owned by the graph
   (mr_attr_fn). */
#ifndef MR_MODEL_OPS_CALL_H
#define MR_MODEL_OPS_CALL_H

#include "model/ir/op.h"

/* "scope: op: ..." into f->diag, as MR_ERR_SHAPE. */
mr_err_t mr__call_refuse(mr_fn_t *f, const char *op, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* For op's builder: refuses `what`, fn, if it is not there or failed while it was traced. */
mr_err_t mr__call_whole(mr_fn_t *f, const char *op, const char *what, const mr_fn_t *fn);
/* MR_OK where got is want; else MR_ERR_SHAPE: "scope: op: what i is GOT, want WANT". */
mr_err_t mr__call_fits(const mr_eqn_t *e, const char *what, int i, const mr_aval_t *got,
                       const mr_aval_t *want, mr_diag_t *diag);
/* Operands and outputs must be those of e's function `name`, or the first of its outputs. */
mr_err_t mr__call_shape(const mr_eqn_t *e, const char *name, mr_aval_t *out, mr_diag_t *diag);
/* The body of the function in place of the call: an open rule. */
mr_err_t mr__call_inline(mr_fn_t *f, const mr_eqn_t *e, const char *name, mr_var_t **out);
/* g, a failed transform of a called function, tells f why. */
mr_err_t mr__call_failed(mr_fn_t *f, const mr_diag_t *why);

#endif
