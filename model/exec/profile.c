/* The times of a profiled run, read from its executable.  The run writes them beside its calls, and
   only if profiling was switched on; here they are joined with the op and the cost of each
   equation. */
#include "model/exec/exec.h"

#include <stdlib.h>
#include <string.h>

#include "model/exec/exec_private.h"
#include "model/ir/op.h"

void mr__profile_fini(mr_exec_t *x) {
  for (int i = 0; x->stamp && i < 2 * x->fn->n_eqn; i++)
    x->device->backend->queue->clock->destroy(x->device, x->stamp[i]);
  free(x->stamp);
  x->stamp = NULL;
}

/* Two stamps for each call, or none without memory. */
static void profile_stamps(mr_exec_t *x) {
  const mr_queue_ops_t *queue = x->device->backend->queue;
  const mr_clock_ops_t *clock = queue ? queue->clock : NULL;
  if (!clock || x->stamp) return;
  x->stamp = calloc(2 * (size_t)x->fn->n_eqn + 1, sizeof *x->stamp);
  bool all = x->stamp != NULL;
  for (int i = 0; all && i < 2 * x->fn->n_eqn; i++)
    if (x->call[i / 2].run) all = (x->stamp[i] = clock->create(x->device)) != NULL;
  if (!all) mr__profile_fini(x);
}

/* The host's clock says when the first call began, and the device's how much later each other
   one. */
void mr__profile_read(mr_exec_t *x, int n, int64_t from) {
  const mr_clock_ops_t *clock = x->device->backend->queue->clock;
  void *first = NULL;
  (void)mr_device_reached(x->device, NULL, true, NULL); /* a failure stays with the device */
  for (int i = 0; i < n; i++) {
    void *const *stamp = &x->stamp[2 * i];
    if (!stamp[0]) continue;
    if (!first) first = stamp[0];
    int64_t ns = clock->between(x->device, stamp[0], stamp[1]);
    int64_t after = clock->between(x->device, first, stamp[0]);
    x->at[i] = from + (after > 0 ? after : 0);
    x->last[i] = ns > 0 ? ns : 0;
    x->ns[i] += x->last[i];
  }
}

void mr_exec_profile(mr_exec_t *x, bool on) {
  x->profile = on;
  if (on) profile_stamps(x);
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
