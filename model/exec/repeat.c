/* Which graphs a device may record once and start as one command: those whose runs give the same
   commands every time.  The steps of a scan are recorded one by one.  A branch of cond and a round
   of while are recorded once if the device can decide during the run which of them it needs; else
   the host reads the condition, and a graph with one of them is not recorded. */
#include "model/exec/exec_private.h"

enum { COMMANDS_MOST = 1 << 14 }; /* that are worth the memory of a recording */

static int64_t commands_of(const mr_exec_t *x);

/* What a recording of c holds at most; more than COMMANDS_MOST: too many, or the host decides.  A
   while is recorded as its carries copied to the results, a test, and a round, which ends with the
   same. */
static int64_t commands_of_call(const mr_call_t *c) {
  int64_t n = c->kernels > 0 ? c->kernels : 1;
  if (c->by_host) return COMMANDS_MOST + 1;
  for (int k = 0; k < c->n_inner; k++) {
    const mr_call_inner_t *i = &c->inner[k];
    bool decided = i->when || i->branch >= 0;
    if (i->runs > COMMANDS_MOST || (decided && !c->device->backend->record->choose))
      return COMMANDS_MOST + 1;
    int64_t each = commands_of(i->exec);
    n += i->when ? 2 * each + c->eqn->n_out + 1 : i->runs * each + (i->branch >= 0);
  }
  return n;
}

static int64_t commands_of(const mr_exec_t *x) {
  int64_t n = x->fn->n_out; /* results may be copied */
  for (int i = 0; i < x->fn->n_eqn && n <= COMMANDS_MOST; i++)
    if (x->call[i].run) n += commands_of_call(&x->call[i]);
  return n <= COMMANDS_MOST ? n : COMMANDS_MOST + 1;
}

bool mr__exec_repeats(const mr_exec_t *x) { return commands_of(x) <= COMMANDS_MOST; }
