/* What ops that call a function share: the function lies in an attribute, a copy owned by the graph
   (mr_attr_fn). */
#ifndef MR_MODEL_OPS_CALL_H
#define MR_MODEL_OPS_CALL_H

#include "model/ops/op.h"

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
/* Mapped operands with the mapped dimension first into v[n_in], and axes[n_in] for mr_vmap. */
void mr__call_front(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in, mr_var_t **v, int *axes);
/* How many examples a call is mapped over: by its operands, or else by the axis that is being
   mapped into f. */
int64_t mr__call_size(const mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in);
/* *out: called on size examples at once, with the mapped dimension first.  Inputs in[i] are mapped;
   outputs are where they depend on mapped ones, which is noted in out_mapped, or where that is set
   already. */
mr_err_t mr__call_mapped(mr_fn_t *f, const mr_fn_t *called, int64_t size, const bool *in,
                         bool *out_mapped, mr_fn_t **out);
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
/* g, a failed transform of a called function, tells f why. */
mr_err_t mr__call_failed(mr_fn_t *f, const mr_diag_t *why);

#endif
