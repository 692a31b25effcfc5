/* The times of a profiled run, read from its executable.  The run writes them beside its calls, and
   only if profiling was switched on; here they are joined with the op and the cost of each
   equation. */
#include "model/exec/exec.h"

#include <string.h>

#include "model/exec/exec_private.h"
#include "model/ir/op.h"

void mr_exec_profile(mr_exec_t *x, bool on) {
  x->profile = on;
  x->runs = x->wall_ns = 0;
  memset(x->ns, 0, (size_t)x->fn->n_eqn * sizeof *x->ns);
}

int mr_exec_profile_calls(const mr_exec_t *x, mr_profile_call_t *call) {
  int n = 0;
  for (int i = 0; i < x->fn->n_eqn; i++) {
    if (!x->call[i].run) continue;
    call[n++] = (mr_profile_call_t){.eqn = x->fn->eqn[i],
                                    .op = x->fn->eqn[i]->op->name,

                                    .cost = mr_cost_of(x->fn->eqn[i]),
                                    .ns = x->ns[i],
                                    .last_at = x->at[i],
                                    .last_ns = x->last[i],
                                    .serial = x->call[i].serial};
  }
  return n;
}

int64_t mr_exec_profile_runs(const mr_exec_t *x, int64_t *wall_ns) {
  *wall_ns = x->wall_ns;
  return x->runs;
}
