/* What ops over a named axis share. */
#ifndef MR_MODEL_OPS_AXIS_H
#define MR_MODEL_OPS_AXIS_H

#include "model/ops/op.h"

/* cpu: fails, because no vmap has bound the axis. */
mr_err_t mr__axis_unbound(mr_cpu_call_t *c, mr_diag_t *diag);
/* Ends a sample with body, (x f32[2]) -> (y), mapped over an axis "i" of 3 and inlined: such an op
   cannot stand alone.  Destroys body. */
bool mr__axis_sample(mr_sample_t *s, mr_fn_t *body, mr_var_t *y);

#endif
