/* What ops over a named axis share. */
#ifndef MR_MODEL_CONTROL_AXIS_H
#define MR_MODEL_CONTROL_AXIS_H

#include "model/backends/cpu/comm.h"
#include "model/ops/op.h"

/* What a collective that is lowered keeps of the device it speaks for. */
typedef struct mr_axis_state {
  mr_comm_t *comm;
  int rank;
} mr_axis_state_t;

/* Gives c, a collective being lowered, its state and run, if the graph is compiled for a device of
   that axis (mr_pmap).  MR_ERR_NORULE if no transform and no device has bound it. */
mr_err_t mr__axis_lower(mr_cpu_call_t *c, void (*run)(const mr_cpu_call_t *c), mr_diag_t *diag);
/* Ends a sample with body, (x f32[2]) -> (y), mapped over an axis "i" of 3 and inlined: such an op
   cannot stand alone.  Destroys body. */
bool mr__axis_sample(mr_sample_t *s, mr_fn_t *body, mr_var_t *y);

#endif
