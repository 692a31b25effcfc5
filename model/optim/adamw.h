/* AdamW around a loss: from graph to graph. */
#ifndef MR_MODEL_OPTIM_ADAMW_H
#define MR_MODEL_OPTIM_ADAMW_H

#include "model/ops/lax.h"

/* loss: (data[n_data], parameters...) -> (mean loss, aux...).
   *out: (data[n_data], lr f32[], t f32[], p..., m..., v...) ->
         (mean loss, aux..., global gradient norm f32[] before clipping, p..., m..., v...).
   t counts from 1.  The caller destroys *out. */
mr_err_t mr_adamw_step_fn(const mr_fn_t *loss, int n_data, const mr_adamw_config_t *c,
                          mr_fn_t **out, mr_diag_t *diag);

#endif
