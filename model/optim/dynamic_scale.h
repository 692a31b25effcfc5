/* Gradients by way of a scaled loss, as transforms: the loss is multiplied by a factor before it is
   differentiated and its gradients are divided by it, so that small ones do not vanish in f16 on
   their way; the factor follows from whether results are finite.

   The factor is part of the function's inputs and outputs, so that these graphs pass through amp,
   vmap and jit like any other.  Training steps scale by themselves (optim.h: mr_optim_t.dynamic).

   Source: jaxamp 0.0.4 (DynamicScalerState, dynamic_scale_value_and_grad, dynamic_scale_grad): its
   names, defaults and numbers, but for the range of the factor, which stays in [2^-126,2^127]
   here. */
#ifndef MR_MODEL_OPTIM_DYNAMIC_SCALE_H
#define MR_MODEL_OPTIM_DYNAMIC_SCALE_H

#include "base/decls.h"
#include "model/ir/fn.h"

MR_BEGIN_DECLS

/* Passes from call to call; as inputs and outputs of a graph its members are scalars of these
   dtypes, in this order. */
typedef struct mr_dynamic_scaler_state {
  int32_t patience;     /* after this many finite results the next one lets the scaler grow */
  float adjust_factor;  /* the scaler is multiplied or divided by it */
  float scaler;         /* factor of the loss */
  int32_t count;        /* finite results since the scaler changed */
  int32_t total_resets; /* all results that were not finite */
} mr_dynamic_scaler_state_t;
enum { MR_DYNAMIC_SCALER_VARS = 5 };

/* Returns jaxamp's defaults: patience 2000, adjust_factor 2, scaler 32768, and zeros. */
mr_dynamic_scaler_state_t mr_dynamic_scaler_state(void);

typedef struct mr_dynamic_scale {
  bool has_aux; /* f has outputs after its value; false: one that has is refused */
  /* After a result that is not finite the scaler is divided and everything is computed again, at
     most this often, >= 0; then the result is given as it is. */
  int redo_on_nan;
  /* Inputs among wrt that are not of floats are constants without a gradient; false: they are
     refused, as mr_grad does. */
  bool filter;
} mr_dynamic_scale_t;

/* Return jaxamp's defaults: no aux, redo_on_nan 10 for value_and_grad and 0 for grad, filter. */
mr_dynamic_scale_t mr_dynamic_scale_value_and_grad_usual(void);
mr_dynamic_scale_t mr_dynamic_scale_grad_usual(void);

/* f: (inputs) -> (y, aux...), y a float scalar.  *out: (inputs, MR_DYNAMIC_SCALER_VARS scalars of
   the state) -> (the next state, y, aux..., dy/d in[wrt[i]]...), y and gradients divided in f32 and
   so f32, or f64 if they are.  y, aux and gradients count: the scaler shrinks if one of them holds
   a NaN or an infinity, the scaled y as y's dtype holds it among them.  o: NULL for
   mr_dynamic_scale_value_and_grad_usual.

   With redo_on_nan the graph holds a while loop, which reverse mode cannot pass (control.h).
   MR_OK: the caller destroys *out.  MR_ERR_SHAPE for aux without has_aux, MR_ERR_CONFIG for
   redo_on_nan < 0, and the failures of mr_value_and_grad; *out is then not set and the sentence is
   in diag.  One thread at a time for one graph; nothing blocks. */
mr_err_t mr_dynamic_scale_value_and_grad(const mr_fn_t *f, int n, const int *wrt,
                                         const mr_dynamic_scale_t *o, mr_fn_t **out,
                                         mr_diag_t *diag);
/* The same without y, which does not count either.  *out: (inputs, state) -> (the next state,
   gradients..., aux...).  o: NULL for mr_dynamic_scale_grad_usual.  Returns as above. */
mr_err_t mr_dynamic_scale_grad(const mr_fn_t *f, int n, const int *wrt, const mr_dynamic_scale_t *o,
                               mr_fn_t **out, mr_diag_t *diag);

MR_END_DECLS

#endif
