/* Shared by the batch rules of ops that call a function: the function on several examples at
   once. */
#ifndef MR_MODEL_CONTROL_MAPPED_H
#define MR_MODEL_CONTROL_MAPPED_H

#include "model/ir/op.h"

/* Writes e's operands to v[n_in], with the mapped dimension first, and the axes for mr_vmap to
   axes[n_in].  A failure is in f->diag. */
void mr__call_front(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in, mr_var_t **v, int *axes);
/* Returns the number of examples that a call is mapped over: that of its mapped operands, or
   without any, of the axis that is being mapped into f. */
int64_t mr__call_size(const mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in);
/* *out: the function `called` on size examples at once, with the mapped dimension first.  in[i]:
   whether input i is mapped.  out_mapped[k] is set if output k depends on a mapped value; output
   k is mapped if it is set, also before the call.  MR_OK: the caller destroys *out.  Else the
   failure, in f->diag. */
mr_err_t mr__call_mapped(mr_fn_t *f, const mr_fn_t *called, int64_t size, const bool *in,
                         bool *out_mapped, mr_fn_t **out);

#endif
