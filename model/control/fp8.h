/* Products of 8-bit floats with delayed scaling, as a transform.

   Operands of a product are multiplied by a scale, each by its own, clamped and rounded to
   f8_e4m3fn; in the backward pass so is the cotangent, to f8_e5m2 or f8_e4m3fn.  The scales follow
   from the largest magnitudes of earlier calls.  Codes are multiplied through bf16, which holds
   them exactly, with sums in f32, so that results are those of hardware for f8 but for the order of
   the sums.

   Scales come as one more input of the function, and the magnitudes that a call has met leave as
   that input's cotangent: reverse mode gathers them as it does gradients.

   Source: TransformerEngine, recipe DelayedScaling with Format.HYBRID and Format.E4M3; Micikevicius
   et al., "FP8 Formats for Deep Learning" (2022).  Handing state on as a cotangent is flax's
   OverwriteWithGradient. */
#ifndef MR_MODEL_CONTROL_FP8_H
#define MR_MODEL_CONTROL_FP8_H

#include "base/decls.h"
#include "model/ir/fn.h"

MR_BEGIN_DECLS

enum { MR_FP8_TENSORS = 3 }; /* of a product: operands 0 and 1, and the cotangent of its result */

typedef enum mr_fp8_format {
  MR_FP8_HYBRID, /* cotangents in f8_e5m2 */
  MR_FP8_E4M3    /* all in f8_e4m3fn */
} mr_fp8_format_t;

/* The recipe. */
typedef struct mr_fp8 {
  mr_fp8_format_t format;
  int history;      /* calls whose magnitudes count, [1,65536] */
  int margin;       /* scales are divided by 2^margin, [-64,64] */
  bool most_recent; /* the last call alone counts; false: the largest of the history */
} mr_fp8_t;

/* Returns TransformerEngine's defaults: hybrid, history 1024, margin 0, the largest counts. */
mr_fp8_t mr_fp8_usual(void);
/* MR_OK, or MR_ERR_CONFIG with setting, value and range. */
mr_err_t mr_fp8_check(const mr_fp8_t *c, mr_diag_t *diag);

/* *out: (inputs, scale f32[*n,MR_FP8_TENSORS]) -> (outputs): f with each linear and dot_general of
   bf16 operands in f8 of that format, in the order of its equations; *n counts them.  Apply it to
   what mr_amp gives; products in f32 or f16, attention, and those inside functions that f calls
   stay as they are.  What is written for a product has by = "fp8" and the product's scope.  The
   cotangent of scale is the largest magnitude of each tensor in this call.
   Reverse mode alone, as for any function with a vjp rule of its author (mr_lax_custom_vjp).

   MR_OK: the caller destroys *out.  MR_ERR_CONFIG if no product would be in f8; f's own failure;
   MR_ERR_NOMEM; *out and *n are then not set and the sentence is in diag.  One thread at a time
   for one graph; nothing blocks. */
mr_err_t mr_fp8_products(const mr_fn_t *f, mr_fp8_format_t format, mr_fn_t **out, int *n,
                         mr_diag_t *diag);

/* Appends the update of the scales after a call to g: from amax, f32[n,MR_FP8_TENSORS], what the
   call has met, scale of that shape and history f32[c->history,n,MR_FP8_TENSORS] it makes the next
   two.  A run begins with scales of 1 and a history of 0.  A tensor whose magnitude is 0 or not
   finite keeps its scale; scales lie in [FLT_MIN,FLT_MAX].  The equations have by = "fp8".  MR_OK,
   or the failure in g->diag: mr_fp8_check's, MR_ERR_SHAPE. */
mr_err_t mr_fp8_next(mr_fn_t *g, const mr_fp8_t *c, mr_var_t *amax, mr_var_t *scale,
                     mr_var_t *history, mr_var_t **next_scale, mr_var_t **next_history);

MR_END_DECLS

#endif
