/* apply_if_finite: an update that leaves everything as it is where its gradients are not finite.
   Training steps have the same rule built in (optim.h: mr_optim_t.only_finite).

   Source: optax.apply_if_finite (optax 0.2), with its state and numbers. */
#ifndef MR_MODEL_OPTIM_APPLY_IF_FINITE_H
#define MR_MODEL_OPTIM_APPLY_IF_FINITE_H

#include "base/decls.h"
#include "model/ir/fn.h"

MR_BEGIN_DECLS

/* Passes from call to call, before the state of the inner update; in a graph: i32[], bool[] and
   i32[], in this order. */
typedef struct mr_apply_if_finite_state {
  int32_t notfinite_count; /* calls in a row, up to this one, that were not finite */
  bool last_finite;
  int32_t total_notfinite; /* all that were not; both counts stay at their largest value */
} mr_apply_if_finite_state_t;
enum { MR_APPLY_IF_FINITE_VARS = 3 };

/* Returns the state of a run's start: 0, true, 0. */
mr_apply_if_finite_state_t mr_apply_if_finite_state(void);

/* inner: (updates[n_updates], state..., further inputs such as parameters...) ->
   (updates[n_updates], state...), n_updates >= 1, each of them with the aval that it came with: an
   optimizer from gradients to what is added to parameters.
   *out: (updates..., MR_APPLY_IF_FINITE_VARS scalars, state..., further inputs...) -> (updates...,
   those scalars, state...).  If an update that comes in holds a NaN or an infinity, updates of 0
   and the state as it was go out; after more than max_consecutive_errors such calls in a row inner
   is applied all the same.  inner runs only where it is applied.

   MR_OK: the caller destroys *out.  MR_ERR_SHAPE for an inner function of other avals,
   MR_ERR_CONFIG for max_consecutive_errors < 0, inner's own failure, MR_ERR_NOMEM; *out is then not
   set and the sentence is in diag.  One thread at a time for one graph; nothing blocks. */
mr_err_t mr_apply_if_finite(const mr_fn_t *inner, int n_updates, int32_t max_consecutive_errors,
                            mr_fn_t **out, mr_diag_t *diag);

MR_END_DECLS

#endif
