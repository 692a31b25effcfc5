/* Inner executables share the planning of mr_compile; the call that runs them brings the arena. */
#include "model/exec/sub.h"

#include <stdlib.h>

#include "model/exec/exec_private.h"

mr_err_t mr__sub_create(const mr_call_t *c, const mr_fn_t *f, mr_exec_t **out, mr_diag_t *diag) {
  mr_exec_t *x = calloc(1, sizeof *x);
  if (!x) return mr_fail(diag, MR_ERR_NOMEM, "no memory to compile a graph");
  mr_compile_options_t o = *c->options;
  o.in_place = 0;
  o.donate = NULL; /* donations are those of the outer graph's inputs */
  o.lender = NULL;
  x->backend = c->backend;
  x->threads = x->backend->threads();
  x->lent = true; /* the arena is the call's scratch */
  mr_err_t err = mr__exec_plan(x, f, &o, true, diag);
  if (err < 0) {
    mr_exec_destroy(x);
    return err;
  }
  x->first_write = x->fn->n_eqn;
  *out = x;
  return MR_OK;
}

static size_t aligned(const mr_backend_t *b, size_t n) {
  return (n + b->align - 1) & ~(b->align - 1);
}

size_t mr__sub_bytes(const mr_exec_t *x) { return aligned(x->backend, x->plan.bytes); }

size_t mr__call_aligned(const mr_call_t *c, size_t n) { return aligned(c->backend, n); }

void mr__sub_run(mr_exec_t *x, const void *const *in, void *const *out) { mr_exec_run(x, in, out); }
