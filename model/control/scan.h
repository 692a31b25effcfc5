/* What the rules of scan share.  Its operands are (constants..., first carries..., stacked x...),
   its results (last carries..., stacked y...); a step's function takes and gives one row of x and
   y. */
#ifndef MR_MODEL_CONTROL_SCAN_H
#define MR_MODEL_CONTROL_SCAN_H

#include "model/control/control.h"

/* The parts of an equation: [0,consts) constants, then carries, then x; out: carries, then y. */
typedef struct mr_scan_parts {
  const mr_fn_t *body;
  mr_scan_t s;
  int n_x, n_y;
} mr_scan_parts_t;

mr_scan_parts_t mr__scan_parts(const mr_eqn_t *e);
/* The equation itself: as many results as body gives. */
mr_err_t mr__scan_emit(mr_fn_t *f, const mr_fn_t *body, const mr_scan_t *s, mr_var_t *const *in,
                       mr_eqn_t **e);
/* a with one dimension of n in front; MR_ERR_SHAPE in diag where there is no room. */
mr_err_t mr__scan_stacked(const mr_aval_t *a, int64_t n, mr_aval_t *out, mr_diag_t *diag);

mr_err_t mr__scan_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din);
mr_err_t mr__scan_jvp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout);

#endif
