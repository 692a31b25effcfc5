/* Dynamic loss scaling as functions of the graph.  The scale grows as long as gradients stay
   finite, so that small gradients do not vanish, and steps with gradients that are not finite are
   skipped.

   Sources: jaxamp's DynamicScalerState (jaxamp 0.0.4), Micikevicius et al., "Mixed Precision
   Training" (2018); optax.apply_if_finite (optax 0.2).  Tests compare with both. */
#ifndef MR_MODEL_OPTIM_LOSS_SCALE_H
#define MR_MODEL_OPTIM_LOSS_SCALE_H

#include "base/decls.h"
#include "model/ops/lax.h"

MR_BEGIN_DECLS

typedef struct mr_loss_scale {
  float start;  /* the first scale, [2^-126,2^127] */
  float factor; /* the scale is multiplied or divided by it, [1,65536]; 1: it never changes */
  /* After this many finite steps the next finite one lets the scale grow, >= 1; 0: no dynamic
     scale. */
  int32_t patience;
  int32_t max_bad; /* skips at most this many steps in a row, >= 0; the next one is applied */
} mr_loss_scale_t;

/* Returns jaxamp's defaults: start 32768, factor 2, patience 2000; and max_bad 100. */
mr_loss_scale_t mr_loss_scale_usual(void);
/* MR_OK, or MR_ERR_CONFIG with setting, value and range.  With patience 0 nothing is checked. */
mr_err_t mr_loss_scale_check(const mr_loss_scale_t *c, mr_diag_t *diag);

/* The state that passes from step to step. */
typedef struct mr_scale_state {
  float scale;     /* [2^-126,2^127] */
  int32_t good;    /* finite steps since the scale last changed */
  int32_t bad;     /* the last steps in a row whose gradients were not finite */
  int32_t resets;  /* all steps whose gradients were not finite */
  int32_t skipped; /* those of them that were not applied */
} mr_scale_state_t;
enum { MR_SCALE_VARS = 5 }; /* the same in a graph: f32[], then i32[] each, in this order */

/* Returns the first state of a run: scale, clamped to the range of scales, and zeros. */
mr_scale_state_t mr_scale_state_start(float scale);

/* bool[]: whether all elements of x[n], n >= 1 values of f32, are finite.  Belongs to f; NULL
   with the sentence in f->diag. */
mr_var_t *mr_optim_finite(mr_fn_t *f, int n, mr_var_t *const *x);
/* The same for n >= 0 values of any dtypes; whole numbers and bool are finite.  Belongs to f; NULL
   as above. */
mr_var_t *mr_optim_all_finite(mr_fn_t *f, int n, mr_var_t *const *x);
/* Traces how a scale moves: with finite, bool[], after `patience` finite steps it is multiplied by
   `factor` and its count of finite steps begins again; without, it is divided by it.  scale and
   factor are f32[], patience and count i32[].  *more and *counted, the next scale, within
   [2^-126,2^127], and the next count, belong to f; NULL with the sentence in f->diag. */
void mr_optim_scale_move(mr_fn_t *f, mr_var_t *patience, mr_var_t *factor, mr_var_t *finite,
                         mr_var_t *scale, mr_var_t *count, mr_var_t **more, mr_var_t **counted);
/* Traces one step: from finite, bool[], and the state now it makes the state next, and *apply,
   bool[]: whether to apply the update, because it is finite or because more than max_bad in a row
   were not.  The vars belong to f.  MR_OK, MR_ERR_CONFIG as mr_loss_scale_check, or the failure
   in f->diag. */
mr_err_t mr_optim_scale_step(mr_fn_t *f, const mr_loss_scale_t *c, mr_var_t *finite,
                             mr_var_t *const now[MR_SCALE_VARS], mr_var_t *next[MR_SCALE_VARS],
                             mr_var_t **apply);

MR_END_DECLS

#endif
