/* Shared by the rules of scan (scan.c, scan_jvp.c, scan_vjp.c) and its lowering.  Its operands
   are (constants..., first carries..., stacked x...), its results (last carries..., stacked
   y...); the function of a step takes and gives one row of each x and y. */
#ifndef MR_MODEL_CONTROL_SCAN_H
#define MR_MODEL_CONTROL_SCAN_H

#include "model/control/control.h"

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

#endif
