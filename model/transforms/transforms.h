/* Transforms: functions from graph to graph that apply the ops' rules.

   f stays the caller's and is not changed; on MR_OK *out is a new graph, which the caller destroys.
   On failure *out is not set and the sentence is in diag: MR_ERR_SHAPE for inputs, axes or shapes
   that do not fit, MR_ERR_NORULE with op and scope if an op has no such rule, MR_ERR_NOMEM, or f's
   own failure if f failed while it was traced.  Functions that take the graph g under construction
   leave the sentence in g->diag instead, and vars that they return belong to g.  Nothing blocks.
   One thread at a time for one graph.

   Implemented in grad.c, jvp.c, linearize.c, jacobian.c, vmap.c, open.c, dce.c,
   fold_convert.c and remat.c.  Source: jax 0.10; derivatives interpret the rules as in
   autodidax. */
#ifndef MR_MODEL_TRANSFORMS_H
#define MR_MODEL_TRANSFORMS_H

#include <limits.h>

#include "base/decls.h"
#include "model/ir/fn.h"
#include "model/ir/op.h"

MR_BEGIN_DECLS

/* Appends f's equations to g by the ops' batch rules: those of in[f->n_in] that are mapped have one
   more dimension than f's inputs.  out[f->n_out] are the results and their mapped dimensions, -1
   for a result that depends on no mapped input.  Scopes lie within g's, as in mr_inline.  MR_OK or
   the failure in g->diag. */
mr_err_t mr_inline_mapped(mr_fn_t *g, const mr_fn_t *f, const mr_batched_t *in, mr_batched_t *out);

/* ---- derivatives.  wrt[n] are numbers of inputs of floats (jax's argnums); MR_ERR_SHAPE for other
   numbers.  Inputs and outputs that are not of floats are constants. ---- */

/* Reverse sweep inside a graph under construction: appends equations that compute the cotangents of
   wrt[n] from dout, the cotangent of y, of y's aval.  grad[i], owned by g, has wrt[i]'s aval; it is
   zeros if y does not depend on wrt[i].  MR_OK, or the failure in g->diag: MR_ERR_NORULE if an op
   on the way has no vjp. */
mr_err_t mr_backward(mr_fn_t *g, mr_var_t *y, mr_var_t *dout, int n, mr_var_t *const *wrt,
                     mr_var_t **grad);
/* The same over equations [from,g->n_eqn) for several results y[n_y]; a dy[k] of NULL is zero, and
   grad[i] is NULL where it is zero. */
mr_err_t mr_backward_range(mr_fn_t *g, int from, int n_y, mr_var_t *const *y, mr_var_t *const *dy,
                           int n, mr_var_t *const *wrt, mr_var_t **grad);
/* The same over equations [from,to), where others follow that are not part of the function. */
mr_err_t mr_backward_between(mr_fn_t *g, int from, int to, int n_y, mr_var_t *const *y,
                             mr_var_t *const *dy, int n, mr_var_t *const *wrt, mr_var_t **grad);
/* For vjp rules: appends e's open form to g and sweeps back through it; dout and din as in
   mr_op_def.ad.  MR_OK or the failure in g->diag. */
mr_err_t mr_backward_open(mr_fn_t *g, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din);
/* Forward sweep over equations [from,g->n_eqn): from din[n_in], the tangents of in[n_in], computes
   dout[n_out], those of out[n_out]; NULL is zero in both.  MR_OK or the failure in g->diag. */
mr_err_t mr_forward_range(mr_fn_t *g, int from, int n_in, mr_var_t *const *in, mr_var_t *const *din,
                          int n_out, mr_var_t *const *out, mr_var_t **dout);

/* f: (inputs) -> (y, aux...), y a float scalar.  *out: (inputs) -> (y, aux..., dy/d in[wrt[i]]...),
   without dead code.  Here and in mr_vjp, passes that save the backward pass work run on a copy of
   f first (mr_passes_before_grad; MR_ERR_CONFIG if MILLRACE_SKIP_PASSES names an unknown pass).
   Source: jax.value_and_grad, with has_aux. */
mr_err_t mr_value_and_grad(const mr_fn_t *f, int n, const int *wrt, mr_fn_t **out, mr_diag_t *diag);
/* mr_value_and_grad for the gradients alone, with its failures.  *out: (inputs) -> (dy/d
   in[wrt[i]]...).  Source: jax.grad. */
mr_err_t mr_grad(const mr_fn_t *f, int n, const int *wrt, mr_fn_t **out, mr_diag_t *diag);
/* *out: (inputs, a cotangent of each output) -> (cotangents of in[wrt[i]]...).  A cotangent has the
   aval of its value.  Fails as mr_value_and_grad does.  Source: jax.vjp. */
mr_err_t mr_vjp(const mr_fn_t *f, int n, const int *wrt, mr_fn_t **out, mr_diag_t *diag);
/* *out: (inputs, a tangent of each in[wrt[i]]) -> (outputs, their tangents).  A tangent has the
   aval of its value.  MR_OK or a failure.  Source: jax.jvp. */
mr_err_t mr_jvp(const mr_fn_t *f, int n, const int *wrt, mr_fn_t **out, mr_diag_t *diag);

/* The jvp cut in two, so that many tangents cost one evaluation.  *point: (inputs) -> (outputs,
   residuals...); *linear: (residuals..., a tangent of each in[wrt[i]]) -> (tangents of the
   outputs), a linear function of the tangents.  The caller destroys both; on failure there is
   neither, whatever *point holds.  Source: jax.linearize. */
mr_err_t mr_linearize(const mr_fn_t *f, int n, const int *wrt, mr_fn_t **point, mr_fn_t **linear,
                      mr_diag_t *diag);
/* *out: (inputs) -> (d out[k] / d in[wrt[i]]..., for k = 0, 1, ..., the i's within each k), each of
   the output's shape followed by the input's: column by column in forward mode (jacfwd), row by
   row in reverse (jacrev).  MR_ERR_SHAPE if an output is not of floats, if output and input have
   more than MR_MAX_NDIM dimensions together, or if an input (jacfwd) or output (jacrev) alone has
   that many.  Source: jax.jacfwd, jax.jacrev. */
mr_err_t mr_jacfwd(const mr_fn_t *f, int n, const int *wrt, mr_fn_t **out, mr_diag_t *diag);
mr_err_t mr_jacrev(const mr_fn_t *f, int n, const int *wrt, mr_fn_t **out, mr_diag_t *diag);
/* f: (inputs) -> (y), y a float scalar.  *out: (inputs) -> (d2 y / d in[wrt[k]] d in[wrt[i]]...,
   the i's within each k): jacfwd of the gradient, with the failures of both.  Source:
   jax.hessian. */
mr_err_t mr_hessian(const mr_fn_t *f, int n, const int *wrt, mr_fn_t **out, mr_diag_t *diag);
/* *out: (inputs, a tangent of each in[wrt[i]]) -> (the Hessian times the tangents, of each
   in[wrt[i]]'s shape): jvp of the gradient, without the Hessian in memory; with the
   failures of both.  Source: Pearlmutter, "Fast Exact Multiplication by the Hessian" (1994). */
mr_err_t mr_hvp(const mr_fn_t *f, int n, const int *wrt, mr_fn_t **out, mr_diag_t *diag);

/* ---- vmap ---- */
#define MR_UNMAPPED INT_MIN
/* *out: f on size examples at once.  in_axes[f->n_in]: the place of the new dimension in each
   input, counted from the end if negative; MR_UNMAPPED for an input that all examples share.
   out_axes[f->n_out]: the same for outputs, with MR_UNMAPPED only for one that depends on no mapped
   input.  A NULL list: 0 for all.  MR_ERR_SHAPE for a size < 0, an axis out of range and beyond
   MR_MAX_NDIM dimensions.  Source: jax.vmap. */
mr_err_t mr_vmap(const mr_fn_t *f, int64_t size, const int *in_axes, const int *out_axes,
                 mr_fn_t **out, mr_diag_t *diag);

/* The same, with a name for the mapped dimension, over which psum, pmean, all_gather and axis_index
   (control.h) inside f communicate; NULL: no name.  Source: jax.vmap's axis_name. */
mr_err_t mr_vmap_axis(const mr_fn_t *f, const char *axis_name, int64_t size, const int *in_axes,
                      const int *out_axes, mr_fn_t **out, mr_diag_t *diag);

/* ---- rewriting ---- */
/* *out: f with every composite written as primitives by its open rule.  Functions with derivatives
   of their own (mr_lax_custom_jvp, mr_lax_custom_vjp) stay calls, to keep those, and are opened
   inside.  MR_OK or a failure. */
mr_err_t mr_open(const mr_fn_t *f, mr_fn_t **out, mr_diag_t *diag);
/* *out: f with calls of functions (ops that have no kernel) replaced by their bodies, and
   composites for whose operands target t has no kernel by primitives.  MR_OK or a failure. */
struct mr_target; /* passes.h */
mr_err_t mr_open_calls(const mr_fn_t *f, const struct mr_target *t, mr_fn_t **out, mr_diag_t *diag);
/* *out: mr_open's result with f64 in place of f32 everywhere: the function in double precision, the
   reference for tests of derivatives.  MR_OK or a failure. */
mr_err_t mr_in_f64(const mr_fn_t *f, mr_fn_t **out, mr_diag_t *diag);
/* Returns a graph of e's open form alone, (e's operands) -> (e's outputs), which the caller
   destroys.  NULL on failure, with the sentence in diag. */
mr_fn_t *mr_open_eqn(const mr_eqn_t *e, mr_diag_t *diag);

/* Removes equations whose results reach no output.  In place; cannot fail. */
void mr_dce(mr_fn_t *f);
/* Removes conversions of bf16 and f16 to f32 if the producer can compute f32 itself, which omits
   the rounding in between, or if the reader accepts the narrow dtype.  In place; only that rounding
   changes values.  Without memory f fails with MR_ERR_NOMEM. */
void mr_fold_convert(mr_fn_t *f);

/* Rematerialization: a large value of a cheap op (mr_op_def.cost) whose next use is far away is
   computed again just before that use instead of being kept, if its operands are still needed then.
   In place; results stay equal to the bit.  MR_OK, or a failure after which f can only be
   destroyed.  After Chen et al., "Training Deep Nets with Sublinear Memory Cost" (2016). */
mr_err_t mr_remat(mr_fn_t *f, mr_diag_t *diag);

MR_END_DECLS

#endif
