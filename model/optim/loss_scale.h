/* A loss scale that finds itself: as large as gradients stay finite, so that small ones do not
   vanish; and steps without finite gradients are left out.  Functions of the graph.

   Sources: jaxamp's DynamicScalerState (jaxamp 0.0.4), Micikevicius et al., "Mixed Precision
   Training" (2018); optax.apply_if_finite (optax 0.2).  Tests compare with both. */
#ifndef MR_MODEL_OPTIM_LOSS_SCALE_H
#define MR_MODEL_OPTIM_LOSS_SCALE_H

#include "base/decls.h"
#include "model/ops/lax.h"

MR_BEGIN_DECLS

typedef struct mr_loss_scale {
  float start;  /* the first scale, [2^-126,2^127] */
  float factor; /* the scale grows and falls by it, [1,65536]; 1: it stays */
  /* Finite steps after which it grows with the next one, >= 1; 0: no such scale. */
  int32_t patience;
  int32_t max_bad; /* most steps in a row that are skipped, >= 0; the next one is applied */
} mr_loss_scale_t;

/* jaxamp's: start 32768, factor 2, patience 2000; max_bad 100. */
mr_loss_scale_t mr_loss_scale_usual(void);
/* MR_ERR_CONFIG with setting, value and range. */
mr_err_t mr_loss_scale_check(const mr_loss_scale_t *c, mr_diag_t *diag);

/* What is kept from step to step. */
typedef struct mr_scale_state {
  float scale;     /* [2^-126,2^127] */
  int32_t good;    /* finite steps since it changed */
  int32_t bad;     /* steps without finite gradients in a row up to now */
  int32_t resets;  /* all of these */
  int32_t skipped; /* those that were left out */
} mr_scale_state_t;
enum { MR_SCALE_VARS = 5 }; /* the same in a graph: f32[], then i32[] each, in this order */

/* The first state of a run: that scale, within the range of scales, and zeros. */
mr_scale_state_t mr_scale_state_start(float scale);

/* bool[]: whether all elements of x[n], n >= 1 values of f32, are finite.  NULL as mr_lax_mul. */
mr_var_t *mr_optim_finite(mr_fn_t *f, int n, mr_var_t *const *x);
/* One step: finite bool[] and the state before it give the state after it, and *apply bool[],
   whether the step's update counts: it is finite, or more than max_bad were not in a row.
   Errors as mr_lax_add. */
mr_err_t mr_optim_scale_step(mr_fn_t *f, const mr_loss_scale_t *c, mr_var_t *finite,
                             mr_var_t *const now[MR_SCALE_VARS], mr_var_t *next[MR_SCALE_VARS],
                             mr_var_t **apply);

MR_END_DECLS

#endif
