/* Shared by the rules of scan, cond and while and their lowering (exec/control.c): the parts of
   their equations; and by the batch rules of all ops that call a function (mapped.c). */
#ifndef MR_MODEL_CONTROL_FLOW_H
#define MR_MODEL_CONTROL_FLOW_H

#include "model/control/control.h"
#include "model/ir/op.h"

/* ---- scan (scan.c, scan_jvp.c, scan_vjp.c): its operands are (constants..., first carries...,
   stacked x...), its results (last carries..., stacked y...); the function of a step takes and
   gives one row of each x and y ---- */

/* The parts of an equation: [0,consts) constants, then carries, then x; out: carries, then y. */
typedef struct mr_scan_parts {
  const mr_fn_t *body;
  mr_scan_t s;
  int n_x, n_y;
} mr_scan_parts_t;

/* Returns the parts of e, whose attributes scan's shape rule has checked; cannot fail. */
mr_scan_parts_t mr__scan_parts(const mr_eqn_t *e);
/* Appends the equation, with as many results as body; *e belongs to f.  MR_OK, or the failure in
   f->diag. */
mr_err_t mr__scan_emit(mr_fn_t *f, const mr_fn_t *body, const mr_scan_t *s, mr_var_t *const *in,
                       mr_eqn_t **e);
/* Writes a with a dimension of n in front to *out, which may be a.  MR_OK, or MR_ERR_SHAPE if a
   has MR_MAX_NDIM dimensions. */
mr_err_t mr__scan_stacked(const mr_aval_t *a, int64_t n, mr_aval_t *out, mr_diag_t *diag);

/* The derivative rules (mr_op_def_t.vjp, .jvp): MR_OK, or the failure in f->diag. */
mr_err_t mr__scan_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din);
mr_err_t mr__scan_jvp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout);

/* ---- cond (cond.c, cond_vjp.c) ---- */

/* Points *b at e's branches, which belong to e's graph, and returns their number. */
int mr__cond_branches(const mr_eqn_t *e, const mr_fn_t *const **b);
/* Appends the equation, with as many results as a branch; *e belongs to f.  MR_OK, or the failure
   in f->diag. */
mr_err_t mr__cond_emit(mr_fn_t *f, mr_var_t *index, int n, const mr_fn_t *const *branch,
                       mr_var_t *const *in, mr_eqn_t **e);
/* The vjp rule (mr_op_def_t.vjp): MR_OK, or the failure in f->diag. */
mr_err_t mr__cond_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din);

/* ---- while (while.c, while_batch.c): its operands are (the condition's constants..., the body's
   constants..., carries...), its results the carries ---- */

typedef struct mr_while_parts {
  const mr_fn_t *cond, *body;
  int n_cond, n_body, n_carry; /* constants of each, and carries */
} mr_while_parts_t;

/* Returns the parts of e, whose attributes while's shape rule has checked; cannot fail. */
mr_while_parts_t mr__while_parts(const mr_eqn_t *e);

/* The batch rule (mr_op_def_t.batch): MR_OK, or the failure in f->diag. */
mr_err_t mr__while_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in, mr_batched_t *out);

/* ---- batch rules: the called function on several examples at once (mapped.c) ---- */

/* Writes e's operands to v[n_in], with the mapped dimension first, and the axes for mr_vmap to
   axes[n_in].  A failure is in f->diag. */
void mr__call_front(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in, mr_var_t **v, int *axes);
/* Returns the number of examples that a call is mapped over: that of its mapped operands, or
   without any, of the axis that is being mapped into f. */
int64_t mr__call_size(const mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in);
/* *out: the function `called` on size examples at once, with the mapped dimension first.  in[i]:
   whether input i is mapped.  out_mapped[k] is set if output k depends on a mapped value; output
   k is mapped if it is set, also before the call.  MR_OK: the caller destroys *out.  Else the
   failure, in f->diag. */
mr_err_t mr__call_mapped(mr_fn_t *f, const mr_fn_t *called, int64_t size, const bool *in,
                         bool *out_mapped, mr_fn_t **out);

#endif
