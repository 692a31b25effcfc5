/* What the batch rules of ops that call a function share: the function on several examples at
   once. */
#ifndef MR_MODEL_CONTROL_MAPPED_H
#define MR_MODEL_CONTROL_MAPPED_H

#include "model/ir/op.h"

/* Mapped operands with the mapped dimension first into v[n_in], and axes[n_in] for mr_vmap. */
void mr__call_front(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in, mr_var_t **v, int *axes);
/* How many examples a call is mapped over: by its operands, or else by the axis that is being
   mapped into f. */
int64_t mr__call_size(const mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in);
/* *out: called on size examples at once, with the mapped dimension first.  Inputs in[i] are mapped;
   outputs are where they depend on mapped ones, which is noted in out_mapped, or where that is set
   already. */
mr_err_t mr__call_mapped(mr_fn_t *f, const mr_fn_t *called, int64_t size, const bool *in,
                         bool *out_mapped, mr_fn_t **out);

#endif
