/* Ops that call functions or speak over a named axis: one function an op, as in lax.h, which stands
   above the transforms because such an op's rules transform the functions that it calls.

   Errors and ownership are lax.h's: a failure leaves its sentence in f->diag; functions given are
   copied and stay the caller's. */
#ifndef MR_MODEL_CONTROL_H
#define MR_MODEL_CONTROL_H

#include "base/decls.h"
#include "model/ops/lax.h"
#include "model/transforms/transforms.h"

MR_BEGIN_DECLS

/* ---- calls; functions are copied; in[] has the avals of their inputs, else MR_ERR_SHAPE ---- */
/* out: body's outputs but the last n_saved, which are kept for the backward pass; the rest of body
   is computed again there.  mr_checkpoint makes such calls by a policy. */
mr_err_t mr_lax_checkpoint(mr_fn_t *f, const mr_fn_t *body, int n_saved, mr_var_t *const *in,
                           mr_var_t **out);
/* body with a jvp rule of one's own.  rule: (inputs, a tangent of each) -> (outputs, their
   tangents), linear in the tangents; reverse mode is its transpose.  After jax.custom_jvp. */
mr_err_t mr_lax_custom_jvp(mr_fn_t *f, const mr_fn_t *body, const mr_fn_t *rule,
                           mr_var_t *const *in, mr_var_t **out);
/* body with a vjp rule of one's own.  fwd: (inputs) -> (outputs, residuals...); bwd: (residuals...,
   a cotangent of each output) -> (a cotangent of each input).  Under reverse mode fwd runs in place
   of body, and second derivatives, jvp(grad) too, are those of fwd and bwd; forward mode of the
   call itself is MR_ERR_NORULE, as in jax.  After jax.custom_vjp. */
mr_err_t mr_lax_custom_vjp(mr_fn_t *f, const mr_fn_t *body, const mr_fn_t *fwd, const mr_fn_t *bwd,
                           mr_var_t *const *in, mr_var_t **out);

/* body as one named equation, printed as jax prints a jitted function; compiled as if it stood
   there.  After jax.jit inside a traced function. */
mr_err_t mr_lax_jit(mr_fn_t *f, const char *name, const mr_fn_t *body, mr_var_t *const *in,
                    mr_var_t **out);

/* ---- control flow; functions are copied; MR_ERR_SHAPE names the values that do not fit ---- */
typedef struct mr_scan {
  int64_t length;
  int n_consts, n_carry;
  bool reverse; /* from the last row to the first */
} mr_scan_t;
/* body: (constants..., carries..., a row of each x...) -> (carries..., a row of each y...); in[]:
   (constants..., first carries..., x... with their rows along dimension 0); out[]: (last
   carries..., y...).  Derivatives in both modes; reverse mode stacks what the way back reads.
   After jax.lax.scan. */
mr_err_t mr_lax_scan(mr_fn_t *f, const mr_fn_t *body, const mr_scan_t *s, mr_var_t *const *in,
                     mr_var_t **out);
/* For i = lo ... hi-1: a scan.  body: (constants..., i i32[], carries...) -> (carries...); in[]:
   (constants..., first carries...).  After jax.lax.fori_loop with bounds that are known. */
mr_err_t mr_lax_fori_loop(mr_fn_t *f, int32_t lo, int32_t hi, const mr_fn_t *body, int n_consts,
                          mr_var_t *const *in, mr_var_t **out);
/* Which runs is settled at run time: branch 0 .. n-1 by index i32[], moved into that range.  All
   take in[] and give values of the same avals.  After jax.lax.switch. */
mr_err_t mr_lax_switch(mr_fn_t *f, mr_var_t *index, int n, const mr_fn_t *const *branch,
                       mr_var_t *const *in, mr_var_t **out);
/* pred bool[].  After jax.lax.cond. */
mr_err_t mr_lax_cond(mr_fn_t *f, mr_var_t *pred, const mr_fn_t *when_true,
                     const mr_fn_t *when_false, mr_var_t *const *in, mr_var_t **out);
/* cond: (its constants..., carries...) -> bool[]; body: (its constants..., carries...) ->
   (carries...), as long as cond says; in[]: (constants of both..., first carries...).  Forward mode
   alone: the vjp fails by name.  After jax.lax.while_loop. */
mr_err_t mr_lax_while(mr_fn_t *f, const mr_fn_t *cond, int n_cond_consts, const mr_fn_t *body,
                      int n_body_consts, mr_var_t *const *in, mr_var_t **out);

/* ---- memory for time ---- */
/* Whether the results of an equation are kept for the backward pass. */
typedef bool mr_policy_fn(const mr_eqn_t *e);
bool mr_save_nothing(const mr_eqn_t *e);    /* all is computed again */
bool mr_save_dots(const mr_eqn_t *e);       /* matrix products and fused attention are kept */
bool mr_save_everything(const mr_eqn_t *e); /* nothing is computed again */
/* *out: f as one call whose inner values, but those the policy saves (NULL: mr_save_nothing), are
   computed again in the backward pass.  Same outputs and derivatives, less memory between the
   passes.  Inline it (mr_inline) where f would stand.  Source: jax.checkpoint; Chen et al. (2016),
   see mr_remat. */
mr_err_t mr_checkpoint(const mr_fn_t *f, mr_policy_fn *policy, mr_fn_t **out, mr_diag_t *diag);

/* ---- over a named axis that an enclosing mr_vmap_axis maps; unbound, a graph cannot run ---- */
mr_var_t *mr_lax_psum(mr_fn_t *f, mr_var_t *x, const char *axis_name);  /* sum over its examples */
mr_var_t *mr_lax_pmean(mr_fn_t *f, mr_var_t *x, const char *axis_name); /* x of floats */
/* The examples' values along a new dimension 0 of `size`, the axis's. */
mr_var_t *mr_lax_all_gather(mr_fn_t *f, mr_var_t *x, const char *axis_name, int64_t size);
mr_var_t *mr_lax_axis_index(mr_fn_t *f, const char *axis_name); /* i32[]: which example this is */

#define MR_OP(name) extern const mr_op_def_t mr_op_##name;
#include "model/control/list.def"
#undef MR_OP

MR_END_DECLS

#endif
