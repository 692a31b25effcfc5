/* Transforms: functions from graph to graph, each by the ops' rules.

   f stays the caller's and as it was; *out is a graph of its own, which the caller destroys.  On
   failure the sentence is in diag and there is no *out: MR_ERR_SHAPE for inputs, axes or shapes
   that do not fit, MR_ERR_NORULE with op and scope where an op has no such rule, MR_ERR_NOMEM.
   Those that take the graph g under construction leave it in g->diag.  One thread at a time for
   one graph.  Source: jax 0.10; derivatives as a walk over rules after autodidax. */
#ifndef MR_MODEL_TRANSFORMS_H
#define MR_MODEL_TRANSFORMS_H

#include <limits.h>

#include "base/decls.h"
#include "model/ir/inline.h"
#include "model/ir/op.h"

MR_BEGIN_DECLS

/* Appends f's equations to g with one dimension more on those of in[f->n_in] that are mapped, by
   the ops' batch rules; out[f->n_out]: the results and which dimension of them is mapped (-1: it
   depends on no mapped input). */
mr_err_t mr_inline_mapped(mr_fn_t *g, const mr_fn_t *f, const mr_batched_t *in, mr_batched_t *out);

/* ---- derivatives.  wrt[n] are numbers of inputs of floats (jax's argnums); MR_ERR_SHAPE for
   others.  An input or output that is not of floats is a constant. ---- */

/* Reverse sweep inside a graph under construction: appends what computes the cotangents of
   wrt[n] given dout, the cotangent of y (same aval).  grad[i] has wrt[i]'s aval; zeros where y
   does not depend on it.  Fails with MR_ERR_NORULE where an op on the way has no vjp. */
mr_err_t mr_backward(mr_fn_t *g, mr_var_t *y, mr_var_t *dout, int n, mr_var_t *const *wrt,
                     mr_var_t **grad);
/* The same over equations [from,g->n_eqn) for several results y[n_y]; dy[k] NULL: zero.  grad[i]
   NULL where it is zero. */
mr_err_t mr_backward_range(mr_fn_t *g, int from, int n_y, mr_var_t *const *y, mr_var_t *const *dy,
                           int n, mr_var_t *const *wrt, mr_var_t **grad);
/* For vjp rules that do more: the sweep through what e's open rule writes, appended to g; dout and
   din as a vjp rule's. */
mr_err_t mr_backward_open(mr_fn_t *g, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din);
/* Forward sweep over equations [from,g->n_eqn): the tangents din[n_in] of in[n_in] (NULL: zero)
   give dout[n_out], those of out[n_out] (NULL: zero). */
mr_err_t mr_forward_range(mr_fn_t *g, int from, int n_in, mr_var_t *const *in, mr_var_t *const *din,
                          int n_out, mr_var_t *const *out, mr_var_t **dout);

/* f: (inputs) -> (y, aux...), y a float scalar.  *out: (inputs) -> (y, aux..., dy/d in[wrt[i]]...),
   without dead code.  Here and in mr_vjp, passes that spare the backward pass work are run on f
   first (mr_passes_before_grad; MR_ERR_CONFIG where MILLRACE_SKIP_PASSES names what is none).
   Source: jax.value_and_grad, with has_aux. */
mr_err_t mr_value_and_grad(const mr_fn_t *f, int n, const int *wrt, mr_fn_t **out, mr_diag_t *diag);
/* *out: (inputs) -> (dy/d in[wrt[i]]...) alone.  Source: jax.grad. */
mr_err_t mr_grad(const mr_fn_t *f, int n, const int *wrt, mr_fn_t **out, mr_diag_t *diag);
/* *out: (inputs, a cotangent of each output) -> (cotangents of in[wrt[i]]...).  Cotangents have
   the avals of what they belong to.  Source: jax.vjp. */
mr_err_t mr_vjp(const mr_fn_t *f, int n, const int *wrt, mr_fn_t **out, mr_diag_t *diag);
/* *out: (inputs, a tangent of each in[wrt[i]]) -> (outputs, their tangents).  Tangents have the
   avals of what they belong to.  Source: jax.jvp. */
mr_err_t mr_jvp(const mr_fn_t *f, int n, const int *wrt, mr_fn_t **out, mr_diag_t *diag);

/* The jvp cut in two, so that many tangents cost one evaluation.  *point: (inputs) -> (outputs,
   residuals...); *linear: (residuals..., a tangent of each in[wrt[i]]) -> (tangents of the
   outputs), a linear function of the tangents.  The caller frees both.  Source: jax.linearize. */
mr_err_t mr_linearize(const mr_fn_t *f, int n, const int *wrt, mr_fn_t **point, mr_fn_t **linear,
                      mr_diag_t *diag);
/* *out: (inputs) -> (d out[k] / d in[wrt[i]]..., for k = 0, 1, ..., the i's within each k), each of
   the output's shape followed by the input's: column by column in forward mode (jacfwd), row by
   row in reverse (jacrev).  Outputs must be of floats; together at most MR_MAX_NDIM dimensions, an
   input (jacfwd) or output (jacrev) alone fewer.  Source: jax.jacfwd, jax.jacrev. */
mr_err_t mr_jacfwd(const mr_fn_t *f, int n, const int *wrt, mr_fn_t **out, mr_diag_t *diag);
mr_err_t mr_jacrev(const mr_fn_t *f, int n, const int *wrt, mr_fn_t **out, mr_diag_t *diag);
/* f: (inputs) -> (y), y a float scalar.  *out: (inputs) -> (d2 y / d in[wrt[k]] d in[wrt[i]]...,
   the i's within each k): jacfwd of the gradient.  Source: jax.hessian. */
mr_err_t mr_hessian(const mr_fn_t *f, int n, const int *wrt, mr_fn_t **out, mr_diag_t *diag);
/* *out: (inputs, a tangent of each in[wrt[i]]) -> (the Hessian times the tangents, of each
   in[wrt[i]]'s shape): jvp of the gradient, without the Hessian in memory.  Source: Pearlmutter,
   "Fast Exact Multiplication by the Hessian" (1994). */
mr_err_t mr_hvp(const mr_fn_t *f, int n, const int *wrt, mr_fn_t **out, mr_diag_t *diag);

/* ---- vmap ---- */
#define MR_UNMAPPED INT_MIN
/* *out: f on size examples at once.  in_axes[f->n_in]: where the new dimension of size stands in
   each input, counted from the end if negative, MR_UNMAPPED for an input all examples share;
   out_axes[f->n_out] the same for outputs (MR_UNMAPPED only for one that depends on no mapped
   input).  NULL: 0 for all.  MR_ERR_SHAPE for a size < 0, an axis that is not there and beyond
   MR_MAX_NDIM dimensions.  Source: jax.vmap. */
mr_err_t mr_vmap(const mr_fn_t *f, int64_t size, const int *in_axes, const int *out_axes,
                 mr_fn_t **out, mr_diag_t *diag);

/* The same, and inside f the mapped dimension has a name, over which psum, pmean, all_gather and
   axis_index speak (lax.h).  NULL: it has none.  Source: jax.vmap's axis_name. */
mr_err_t mr_vmap_axis(const mr_fn_t *f, const char *axis_name, int64_t size, const int *in_axes,
                      const int *out_axes, mr_fn_t **out, mr_diag_t *diag);

/* ---- rewriting ---- */
/* *out: f with every composite written as primitives by its open rule.  Functions whose derivatives
   their authors have given (mr_lax_custom_jvp, mr_lax_custom_vjp) stay calls, so that those hold,
   and are opened inside. */
mr_err_t mr_open(const mr_fn_t *f, mr_fn_t **out, mr_diag_t *diag);
/* *out: f with the calls of functions (ops that have no kernel) written as their bodies, and the
   composites that target t has no kernel for, with these operands, as primitives. */
struct mr_target; /* passes.h */
mr_err_t mr_open_calls(const mr_fn_t *f, const struct mr_target *t, mr_fn_t **out, mr_diag_t *diag);
/* *out: mr_open's with f64 in place of f32 everywhere: the function in double precision, against
   which derivatives are checked. */
mr_err_t mr_in_f64(const mr_fn_t *f, mr_fn_t **out, mr_diag_t *diag);
/* A graph of e alone, opened once: (e's operands) -> (e's outputs), of the caller.  NULL on
   failure. */
mr_fn_t *mr_open_eqn(const mr_eqn_t *e, mr_diag_t *diag);

/* Removes equations whose results reach no output.  In place. */
void mr_dce(mr_fn_t *f);
/* Removes f32 conversions of bf16 values where the producer can give f32 itself (the product is
   then rounded once instead of twice) or the user reads bf16 itself.  In place; changes no value
   but by that rounding.  Without memory f->diag tells it. */
void mr_fold_convert(mr_fn_t *f);

/* Rematerialisation: a value of a cheap op (mr_op_def.cheap) whose next use is far away is computed
   again just before that use instead of being kept, as long as its operands are still there then.
   In place; results stay equal to the bit.  After Chen et al., "Training Deep Nets with Sublinear
   Memory Cost" (2016). */
mr_err_t mr_remat(mr_fn_t *f, mr_diag_t *diag);

MR_END_DECLS

#endif
