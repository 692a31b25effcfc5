/* The Adam family, by the fused op of AdamW.

   adamw: Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (2017).  adam: the same
   without weight decay (Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2014).  lamb:
   Adam's step of each tensor, rescaled to lr times the norm of the tensor (You et al., "Large Batch
   Optimization for Deep Learning", 2019). */
#include "model/optim/optim.h"

static mr_err_t fused_update(mr_fn_t *f, const mr_optim_t *o, float weight_decay,
                             const mr_optim_in_t *in, mr_var_t **out) {
  mr_adamw_config_t c = {.b1 = o->b1, .b2 = o->b2, .eps = o->eps, .weight_decay = weight_decay};
  mr_var_t *now[] = {in->p, in->g, in->slot[0], in->slot[1]};
  return mr_lax_adamw_where(f, &c, now, in->lr, in->t, in->scale, in->apply, out);
}

static mr_err_t adamw_update(mr_fn_t *f, const mr_optim_t *o, const mr_optim_in_t *in,
                             mr_var_t **out) {
  return fused_update(f, o, o->weight_decay, in, out);
}

const mr_optim_def_t mr_optim_adamw = {
    .name = "adamw",
    .n_slots = 2,
    .slot = {"adam.m", "adam.v"},
    .chooses = true,
    .usual = {.b1 = .9f, .b2 = .999f, .eps = 1e-8f, .weight_decay = 1e-4f},
    .update = adamw_update};

static mr_err_t adam_update(mr_fn_t *f, const mr_optim_t *o, const mr_optim_in_t *in,
                            mr_var_t **out) {
  return fused_update(f, o, 0, in, out);
}

const mr_optim_def_t mr_optim_adam = {.name = "adam",
                                      .n_slots = 2,
                                      .slot = {"adam.m", "adam.v"},
                                      .chooses = true,
                                      .usual = {.b1 = .9f, .b2 = .999f, .eps = 1e-8f},
                                      .update = adam_update};

/* ---- lamb ---- */

/* |p| / |u|, or 1 if one of them is 0: the sum of both cases, each times whether it holds. */
static mr_var_t *trust_ratio(mr_fn_t *f, mr_var_t *p, mr_var_t *u) {
  mr_dtype_t t = p->aval.dtype;
  mr_var_t *np = mr_lax_convert(f, mr_lax_sqrt(f, mr_lax_sum_squares(f, 1, &p)), t);
  mr_var_t *nu = mr_lax_convert(f, mr_lax_sqrt(f, mr_lax_sum_squares(f, 1, &u)), t);
  mr_var_t *zero = mr_literal(f, t, 0);
  mr_var_t *degenerate = mr_lax_max(f, mr_lax_convert(f, mr_lax_eq(f, np, zero), t),
                                    mr_lax_convert(f, mr_lax_eq(f, nu, zero), t));
  mr_var_t *usual = mr_lax_sub(f, mr_literal(f, t, 1), degenerate);
  mr_var_t *ratio = mr_lax_div(f, np, mr_lax_add(f, nu, degenerate)); /* never divides by 0 */
  return mr_lax_add(f, degenerate, mr_lax_mul(f, usual, ratio));
}

/* Adam's direction: the fused op at p = 0 and lr = -1. */
static mr_err_t adam_direction(mr_fn_t *f, const mr_optim_t *o, const mr_optim_in_t *in,
                               mr_var_t **out) {
  const mr_aval_t *a = &in->p->aval;
  mr_adamw_config_t c = {.b1 = o->b1, .b2 = o->b2, .eps = o->eps};
  mr_var_t *zeros = mr_lax_broadcast_in_dim(f, mr_literal(f, a->dtype, 0), a->ndim, a->dim, NULL);
  mr_var_t *now[] = {zeros, in->g, in->slot[0], in->slot[1]};
  return mr_lax_adamw(f, &c, now, mr_literal(f, MR_F32, -1), in->t, in->scale, out);
}

static mr_err_t lamb_update(mr_fn_t *f, const mr_optim_t *o, const mr_optim_in_t *in,
                            mr_var_t **out) {
  MR_TRY(adam_direction(f, o, in, out));
  mr_var_t *u = mr_lax_add(f, out[0], mr_lax_scale(f, o->weight_decay, in->p));
  u = mr_lax_mul(f, u, trust_ratio(f, in->p, u));
  out[0] = mr_lax_sub(f, in->p, mr_lax_mul(f, u, in->lr));
  return f->diag.code;
}

const mr_optim_def_t mr_optim_lamb = {.name = "lamb",
                                      .n_slots = 2,
                                      .slot = {"adam.m", "adam.v"},
                                      .usual = {.b1 = .9f, .b2 = .999f, .eps = 1e-6f},
                                      .update = lamb_update};
