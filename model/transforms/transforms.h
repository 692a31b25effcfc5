/* Transforms: functions from graph to graph, each by the ops' rules.  They report in diag; a
   failed one returns no graph. */
#ifndef MR_MODEL_TRANSFORMS_H
#define MR_MODEL_TRANSFORMS_H

#include "model/ir/fn.h"

/* Appends f's equations to g with in[f->n_in] for its inputs; out[f->n_out] are its results. */
mr_err_t mr_inline(mr_fn_t *g, const mr_fn_t *f, mr_var_t *const *in, mr_var_t **out);
/* A copy of f.  NULL on failure. */
mr_fn_t *mr_fn_copy(const mr_fn_t *f, mr_diag_t *diag);

/* Reverse sweep inside a graph under construction: appends what computes the cotangents of
   wrt[n] given dout, the cotangent of y (same aval).  grad[i] has wrt[i]'s aval; zeros where y
   does not depend on it.  Fails with MR_ERR_NORULE where an op on the way has no vjp. */
mr_err_t mr_backward(mr_fn_t *g, mr_var_t *y, mr_var_t *dout, int n, mr_var_t *const *wrt,
                     mr_var_t **grad);

/* f: (inputs) -> (y, aux...), y a float scalar.  *out: (inputs) -> (y, aux..., dy/d in[wrt[i]]...),
   without dead code; the caller destroys it. */
mr_err_t mr_value_and_grad(const mr_fn_t *f, int n, const int *wrt, mr_fn_t **out, mr_diag_t *diag);
/* f: (inputs) -> (y).  *out: (inputs, cotangent of y) -> (cotangents of in[wrt[i]]...). */
mr_err_t mr_vjp(const mr_fn_t *f, int n, const int *wrt, mr_fn_t **out, mr_diag_t *diag);

/* Removes equations whose results reach no output.  In place. */
void mr_dce(mr_fn_t *f);
/* Removes f32 conversions of bf16 values where the producer can give f32 itself (the product is
   then rounded once instead of twice) or the user reads bf16 itself.  In place; changes no value
   but by that rounding. */
void mr_fold_convert(mr_fn_t *f);

/* Rematerialisation: a value of a cheap op (mr_op_def.cheap) whose next use is far away is computed
   again just before that use instead of being kept, as long as its operands are still there then.
   In place; results stay equal to the bit.  After Chen et al., "Training Deep Nets with Sublinear
   Memory Cost" (2016). */
mr_err_t mr_remat(mr_fn_t *f, mr_diag_t *diag);

#endif
