/* What ops that call a function share.  The function is in an attribute of the equation, as a copy
   that the graph owns (mr_attr_fn).  Failures leave their sentence in f->diag, or in diag. */
#ifndef MR_MODEL_OPS_CALL_H
#define MR_MODEL_OPS_CALL_H

#include "model/ir/op.h"

/* Leaves "scope: op: ..." in f->diag and returns MR_ERR_SHAPE. */
mr_err_t mr__call_refuse(mr_fn_t *f, const char *op, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* For op's builder: checks fn, which the sentence calls `what`.  MR_ERR_SHAPE if fn is NULL or
   failed while it was traced, MR_ERR_NOMEM if it failed for memory, f's own failure if it has one,
   else MR_OK. */
mr_err_t mr__call_whole(mr_fn_t *f, const char *op, const char *what, const mr_fn_t *fn);
/* MR_OK if got equals want, else MR_ERR_SHAPE: "scope: op: what i is GOT, want WANT". */
mr_err_t mr__call_fits(const mr_eqn_t *e, const char *what, int i, const mr_aval_t *got,
                       const mr_aval_t *want, mr_diag_t *diag);
/* The shape rule of a call: e's operands must have the avals of the inputs of the function in its
   attribute `name`, and out[e->n_out] become those of the function's first outputs.  MR_ERR_SHAPE
   names the first difference. */
mr_err_t mr__call_shape(const mr_eqn_t *e, const char *name, mr_aval_t *out, mr_diag_t *diag);
/* The open rule of a call: appends the body of the function in attribute `name` to f and sets
   out[e->n_out].  MR_OK or mr_inline's failure. */
mr_err_t mr__call_inline(mr_fn_t *f, const mr_eqn_t *e, const char *name, mr_var_t **out);
/* Leaves why, the failure of a transform of a called function, in f->diag and returns its code. */
mr_err_t mr__call_failed(mr_fn_t *f, const mr_diag_t *why);

#endif
