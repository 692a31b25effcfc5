/* Adam (Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2014): AdamW without weight
   decay. */
#include "model/optim/optim.h"

static mr_err_t adam_update(mr_fn_t *f, const mr_optim_t *o, const mr_optim_in_t *in,
                            mr_var_t **out) {
  mr_adamw_config_t c = {.b1 = o->b1, .b2 = o->b2, .eps = o->eps};
  mr_var_t *now[] = {in->p, in->g, in->slot[0], in->slot[1]};
  return mr_lax_adamw_where(f, &c, now, in->lr, in->t, in->scale, in->apply, out);
}

const mr_optim_def_t mr_optim_adam = {.name = "adam",
                                      .n_slots = 2,
                                      .chooses = true,
                                      .usual = {.b1 = .9f, .b2 = .999f, .eps = 1e-8f},
                                      .update = adam_update};
