/* Ops that call functions or communicate over a named axis: one function for each op, as in
   lax.h.  They are in a layer above the transforms, because their rules transform the functions
   they call.

   Errors and ownership are as in lax.h: results belong to f and live as long as it, and a failure
   leaves its sentence in f->diag.  Functions passed in are copied and stay the caller's.  Each op
   is implemented in the file of its name (fori_loop in scan.c, switch in cond.c); the other ops
   over an axis in collectives.c. */
#ifndef MR_MODEL_CONTROL_H
#define MR_MODEL_CONTROL_H

#include "base/decls.h"
#include "model/ops/lax.h"
#include "model/transforms/transforms.h"

MR_BEGIN_DECLS

/* ---- calls: in[] must have the avals of the function's inputs.  Each returns MR_OK with the
   results in out[], or the failure in f->diag: MR_ERR_SHAPE for values that do not fit or a
   function that failed while it was traced, MR_ERR_NOMEM ---- */
/* out: body's outputs except the last n_saved, which are kept for the backward pass; it
   recomputes the other values of body.  mr_checkpoint makes such calls from a policy.
   MR_ERR_SHAPE also for n_saved out of range. */
mr_err_t mr_lax_checkpoint(mr_fn_t *f, const mr_fn_t *body, int n_saved, mr_var_t *const *in,
                           mr_var_t **out);
/* Calls body, with a custom jvp rule.  rule: (inputs, a tangent of each) -> (outputs, their
   tangents), linear in the tangents; reverse mode is its transpose.  MR_OK, or MR_ERR_SHAPE as
   above.  After jax.custom_jvp. */
mr_err_t mr_lax_custom_jvp(mr_fn_t *f, const mr_fn_t *body, const mr_fn_t *rule,
                           mr_var_t *const *in, mr_var_t **out);
/* Calls body, with a custom vjp rule.  fwd: (inputs) -> (outputs, residuals...); bwd:
   (residuals..., a cotangent of each output) -> (a cotangent of each input).  Under reverse mode
   fwd replaces body, and second derivatives, also jvp of grad, are those of fwd and bwd.  Forward
   mode of the call itself fails with MR_ERR_NORULE, as in jax.  MR_OK, or MR_ERR_SHAPE as above.
   After jax.custom_vjp. */
mr_err_t mr_lax_custom_vjp(mr_fn_t *f, const mr_fn_t *body, const mr_fn_t *fwd, const mr_fn_t *bwd,
                           mr_var_t *const *in, mr_var_t **out);

/* Calls body as one named equation, which prints as jax prints a jitted function; the compiler
   inlines it.  name is copied.  MR_OK, or MR_ERR_SHAPE as above.  After jax.jit inside a traced
   function. */
mr_err_t mr_lax_jit(mr_fn_t *f, const char *name, const mr_fn_t *body, mr_var_t *const *in,
                    mr_var_t **out);

/* ---- control flow: each returns MR_OK with the results in out[], or the failure in f->diag:
   MR_ERR_SHAPE names the values that do not fit, MR_ERR_NOMEM ---- */
typedef struct mr_scan {
  int64_t length;
  int n_consts, n_carry;
  bool reverse; /* steps run from the last row to the first */
} mr_scan_t;
/* Loops s->length times.  body: (constants..., carries..., a row of each x...) -> (carries..., a
   row of each y...); in[]: (constants..., first carries..., x... with their rows along dimension
   0); out[]: (last carries..., y...).  It has derivatives in both modes; for reverse mode it
   stacks the values that the backward pass reads.  MR_OK, or MR_ERR_SHAPE as above.  After
   jax.lax.scan. */
mr_err_t mr_lax_scan(mr_fn_t *f, const mr_fn_t *body, const mr_scan_t *s, mr_var_t *const *in,
                     mr_var_t **out);
/* Loops for i in [lo,hi), as a scan.  body: (constants..., i i32[], carries...) -> (carries...);
   in[]: (constants..., first carries...); out[]: (last carries...).  MR_OK, or MR_ERR_SHAPE as
   above.  After jax.lax.fori_loop with known bounds. */
mr_err_t mr_lax_fori_loop(mr_fn_t *f, int32_t lo, int32_t hi, const mr_fn_t *body, int n_consts,
                          mr_var_t *const *in, mr_var_t **out);
/* Runs one of n >= 1 branches, chosen at run time by index i32[], which is clamped to [0,n).  All
   branches take in[] and give values of the same avals.  MR_OK, or MR_ERR_SHAPE as above.  After
   jax.lax.switch. */
mr_err_t mr_lax_switch(mr_fn_t *f, mr_var_t *index, int n, const mr_fn_t *const *branch,
                       mr_var_t *const *in, mr_var_t **out);
/* The same for two branches and pred, bool[].  MR_OK, or MR_ERR_SHAPE as above.  After
   jax.lax.cond. */
mr_err_t mr_lax_cond(mr_fn_t *f, mr_var_t *pred, const mr_fn_t *when_true,
                     const mr_fn_t *when_false, mr_var_t *const *in, mr_var_t **out);
/* Loops while cond is true.  cond: (its constants..., carries...) -> bool[]; body: (its
   constants..., carries...) -> (carries...); in[]: (cond's constants..., body's constants...,
   first carries...); out[]: (last carries...).  Forward mode only: reverse mode fails with
   MR_ERR_NORULE.  MR_OK, or MR_ERR_SHAPE as above.  After jax.lax.while_loop. */
mr_err_t mr_lax_while(mr_fn_t *f, const mr_fn_t *cond, int n_cond_consts, const mr_fn_t *body,
                      int n_body_consts, mr_var_t *const *in, mr_var_t **out);

/* ---- memory for time ---- */
/* A policy: returns whether the results of an equation are kept for the backward pass. */
typedef bool mr_policy_fn(const mr_eqn_t *e);
bool mr_save_nothing(const mr_eqn_t *e);    /* false: everything is recomputed */
bool mr_save_dots(const mr_eqn_t *e);       /* true for matrix products and fused attention */
bool mr_save_everything(const mr_eqn_t *e); /* true: nothing is recomputed */
/* *out: f as one call.  The backward pass keeps of its inner values those that policy saves
   (NULL: mr_save_nothing), and recomputes the others: same outputs and derivatives, less memory
   between the passes.  Use it (mr_inline) in place of f.  MR_OK: the caller destroys *out.
   MR_ERR_NOMEM, or the failure that f holds.  Source: jax.checkpoint; Chen et al. (2016), see
   mr_remat. */
mr_err_t mr_checkpoint(const mr_fn_t *f, mr_policy_fn *policy, mr_fn_t **out, mr_diag_t *diag);

/* ---- over a named axis: the examples of an enclosing mr_vmap_axis, or the devices of mr_pmap; a
   graph with an axis that neither binds cannot run.  Each returns a var that belongs to f, or
   NULL with the sentence in f->diag; axis_name is copied ---- */
mr_var_t *mr_lax_psum(mr_fn_t *f, mr_var_t *x, const char *axis_name);  /* the sum over the axis */
mr_var_t *mr_lax_pmean(mr_fn_t *f, mr_var_t *x, const char *axis_name); /* the mean; x of floats */
/* The largest and the smallest value over the axis, NaN where one is NaN.  They have no derivatives
   (MR_ERR_NORULE), as in jax; those of what mr_vmap_axis makes of them are reduce_max's. */
mr_var_t *mr_lax_pmax(mr_fn_t *f, mr_var_t *x, const char *axis_name);
mr_var_t *mr_lax_pmin(mr_fn_t *f, mr_var_t *x, const char *axis_name);
mr_var_t *mr_lax_all_gather(
    mr_fn_t *f, mr_var_t *x, const char *axis_name,
    int64_t size); /* all values along a new dimension 0 of size, the axis's */
/* Of x with a dimension 0 of the axis's size: psum_scatter gives the place's own row of the sum;
   all_to_all gives as row k what place k has in this place's row.  After jax.lax with
   scatter_dimension, split_axis and concat_axis 0, not tiled. */
mr_var_t *mr_lax_psum_scatter(mr_fn_t *f, mr_var_t *x, const char *axis_name);
mr_var_t *mr_lax_all_to_all(mr_fn_t *f, mr_var_t *x, const char *axis_name);
/* Sends x from place perm[k][0] to place perm[k][1], for k in [0,n); where none is sent there are
   zeros.  No place sends or receives twice: MR_ERR_SHAPE; nor is one outside of the axis, which is
   found out when the axis is bound.  The derivative goes the other way.  perm is copied. */
mr_var_t *mr_lax_ppermute(mr_fn_t *f, mr_var_t *x, const char *axis_name, int n,
                          const int (*perm)[2]);
/* The same in one of several graphs that differ, of which each has the exchanges of its own rank
   alone: its turn among them, which no other of f has, keeps it from being dropped or merged. */
mr_var_t *mr_lax_ppermute_in_turn(mr_fn_t *f, mr_var_t *x, const char *axis_name, int n,
                                  const int (*perm)[2], int turn);
mr_var_t *mr_lax_axis_index(mr_fn_t *f, const char *axis_name); /* i32[]: the place on the axis */

/* ---- on a mesh ---- */
/* x, which lies on a mesh as spec says where mr_partition cuts the function: an entry for each
   dimension, "(None,model)", "((data,model),None)"; elsewhere it is x itself.  Its cotangent lies
   so too; a dimension that mr_vmap adds is whole.  A var of f; NULL with MR_ERR_SHAPE for another
   number of entries.  After jax.lax.with_sharding_constraint. */
mr_var_t *mr_lax_shard(mr_fn_t *f, mr_var_t *x, const char *spec);

#define MR_OP(name) extern const mr_op_def_t mr_op_##name;
#include "model/control/list.def"
#undef MR_OP

/* Of an equation ppermute: sets *to and *from to where place r of an axis of that size sends and
   from where it receives, -1: none.  MR_OK; MR_ERR_SHAPE with the sentence for a pair that is not
   of the axis. */
mr_err_t mr_ppermute_places(const mr_eqn_t *e, int64_t size, int r, int *to, int *from,
                            mr_diag_t *diag);

MR_END_DECLS

#endif
