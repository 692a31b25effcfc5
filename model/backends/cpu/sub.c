#include "model/backends/cpu/sub.h"

#include <omp.h>
#include <stdlib.h>

#include "model/backends/cpu/exec_private.h"

mr_err_t mr__sub_create(const mr_cpu_call_t *c, const mr_fn_t *f, mr_exec_t **out,
                        mr_diag_t *diag) {
  mr_exec_t *x = calloc(1, sizeof *x);
  if (!x) return mr_fail(diag, MR_ERR_NOMEM, "no memory to compile a graph");
  mr_jit_options_t o = *c->options;
  o.in_place = 0;
  o.donate = NULL; /* what the graph around it gives away is no matter of this one */
  o.lender = NULL;
  x->threads = omp_get_max_threads();
  x->lent = true; /* the arena is the caller's */
  mr_err_t err = mr__exec_plan(x, f, &o, diag);
  if (err < 0) {
    mr_exec_destroy(x);
    return err;
  }
  x->first_write = x->fn->n_eqn;
  *out = x;
  return MR_OK;
}

size_t mr__sub_bytes(const mr_exec_t *x) { return (x->plan.bytes + 63) & ~(size_t)63; }

void mr__sub_begin(mr_exec_t *x, void *arena) {
  x->arena = arena;
  mr__exec_bind(x);
}

void mr__sub_run(mr_exec_t *x, const void *const *in, void *const *out) { mr_exec_run(x, in, out); }
