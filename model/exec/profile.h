/* The time that an executable spends in each equation, beside the equation's cost.  Switched on by
   mr_exec_profile; read it while no run is in progress. */
#ifndef MR_MODEL_EXEC_PROFILE_H
#define MR_MODEL_EXEC_PROFILE_H

#include "model/exec/exec.h"
#include "model/ops/cost.h"

/* One kernel call of a run. */
typedef struct mr_profile_call {
  const mr_eqn_t *eqn; /* owned by the executable */
  const char *op;      /* its op's name */
  mr_cost_t cost;
  int64_t ns;               /* of all profiled runs together */
  int64_t last_at, last_ns; /* the last run: when it began (mr_now_ns) and how long it took */
  bool serial;              /* runs on one thread */
} mr_profile_call_t;

/* Fills call[0,n) in running order and returns n.  Equations without a kernel have no row, so n is
   at most mr_exec_fn(x)->n_eqn, which is the size that call must have.  Cannot fail. */
int mr_exec_profile_calls(const mr_exec_t *x, mr_profile_call_t *call);
/* Returns the number of complete runs since the profile was switched on, and writes their duration,
   from call to return, to *wall_ns. */
int64_t mr_exec_profile_runs(const mr_exec_t *x, int64_t *wall_ns);

#endif
