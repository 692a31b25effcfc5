/* Stochastic gradient descent: sgd is p - lr g.  momentum is m = b1 m + g; p - lr m, or with
   nesterov p - lr (g + b1 m). */
#include "model/optim/optim.h"

static mr_err_t sgd_update(mr_fn_t *f, const mr_optim_t *o, const mr_optim_in_t *in,
                           mr_var_t **out) {
  mr_var_t *rate = mr_lax_mul(f, in->lr, in->scale);
  out[0] = mr_lax_sub(f, in->p, mr_lax_mul(f, in->g, rate));
  return f->diag.code;
}

const mr_optim_def_t mr_optim_sgd = {.name = "sgd", .update = sgd_update};

static mr_err_t momentum_update(mr_fn_t *f, const mr_optim_t *o, const mr_optim_in_t *in,
                                mr_var_t **out) {
  mr_var_t *g = mr_lax_mul(f, in->g, in->scale);
  mr_var_t *m = mr_lax_add(f, mr_lax_scale(f, o->b1, in->slot[0]), g);
  mr_var_t *along = o->nesterov ? mr_lax_add(f, g, mr_lax_scale(f, o->b1, m)) : m;
  out[0] = mr_lax_sub(f, in->p, mr_lax_mul(f, along, in->lr));
  out[1] = m;
  return f->diag.code;
}

const mr_optim_def_t mr_optim_momentum = {
    .name = "momentum", .n_slots = 1, .usual = {.b1 = .9f}, .update = momentum_update};
