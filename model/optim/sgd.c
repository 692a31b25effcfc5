/* Stochastic gradient descent and the rules with one momentum.  sgd: p - lr g.  momentum:
   m = b1 m + g; p - lr m, or with nesterov p - lr (g + b1 m).  lion (Chen et al., "Symbolic
   Discovery of Optimization Algorithms", 2023): every weight moves by the same amount, in the
   direction of the sign of b1 m + (1 - b1) g. */
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

const mr_optim_def_t mr_optim_momentum = {.name = "momentum",
                                          .n_slots = 1,
                                          .slot = {"momentum.m"},
                                          .usual = {.b1 = .9f},
                                          .update = momentum_update};

/* ---- lion ---- */

static mr_var_t *lion_mix(mr_fn_t *f, double b, mr_var_t *m, mr_var_t *g) {
  return mr_lax_add(f, mr_lax_scale(f, b, m), mr_lax_scale(f, 1 - b, g));
}

static mr_err_t lion_update(mr_fn_t *f, const mr_optim_t *o, const mr_optim_in_t *in,
                            mr_var_t **out) {
  mr_var_t *g = mr_lax_mul(f, in->g, in->scale);
  mr_var_t *along = mr_lax_sign(f, lion_mix(f, o->b1, in->slot[0], g));
  along = mr_lax_add(f, along, mr_lax_scale(f, o->weight_decay, in->p));
  out[0] = mr_lax_sub(f, in->p, mr_lax_mul(f, along, in->lr));
  out[1] = lion_mix(f, o->b2, in->slot[0], g);
  return f->diag.code;
}

const mr_optim_def_t mr_optim_lion = {.name = "lion",
                                      .n_slots = 1,
                                      .slot = {"lion.m"},
                                      .usual = {.b1 = .9f, .b2 = .99f, .weight_decay = 1e-3f},
                                      .update = lion_update};
