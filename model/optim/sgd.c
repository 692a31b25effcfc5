/* Plain stochastic gradient descent: p - lr g. */
#include "model/optim/optim.h"

static mr_err_t sgd_update(mr_fn_t *f, const mr_optim_t *o, const mr_optim_in_t *in,
                           mr_var_t **out) {
  mr_var_t *rate = mr_lax_mul(f, in->lr, in->scale);
  out[0] = mr_lax_sub(f, in->p, mr_lax_mul(f, in->g, rate));
  return f->diag.code;
}

const mr_optim_def_t mr_optim_sgd = {.name = "sgd", .update = sgd_update};
