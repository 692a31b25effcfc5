/* Optimizers as functions of the graph: what one step does to a parameter and to the tensors that
   an optimizer keeps beside it (its slots: momentum, second moment).

   Arithmetic and defaults are optax's (https://optax.readthedocs.io); tests compare with it. */
#ifndef MR_MODEL_OPTIM_H
#define MR_MODEL_OPTIM_H

#include "base/decls.h"
#include "model/ops/lax.h"
#include "model/optim/loss_scale.h"

MR_BEGIN_DECLS

enum { MR_OPTIM_SLOTS = 2 }; /* at most */

typedef struct mr_optim_def mr_optim_def_t;

typedef struct mr_optim {
  const mr_optim_def_t *def;
  float b1, b2;       /* decays of the first and the second moment, in [0,1); momentum: b1 */
  float eps;          /* adam, adamw, lamb: added to the root of the second moment, in [0,1) */
  float weight_decay; /* decoupled, of every parameter, in [0,100); sgd and adam have none */
  float clip_norm;    /* gradients are scaled to at most this global norm; 0: as they are */
  float loss_scale;   /* of the loss before its gradient, which is divided by it; [0,1e9), 0: 1 */
  mr_loss_scale_t dynamic; /* with patience: the step keeps a scale of its own instead */
  float ema;               /* decay of an average of the parameters over time, in [0,1); 0: none */
  bool nesterov;           /* momentum: looks ahead by one step */
} mr_optim_t;

/* One parameter's tensors: p, g and the slots of f32, bf16 or f64 and alike; lr and scale (g is
   multiplied by it first) scalars of their dtype; t (the step's number, from 1) f32[].  bf16 is
   rounded after each operation, as optax does it outside of jit. */
typedef struct mr_optim_in {
  mr_var_t *p, *g, *slot[MR_OPTIM_SLOTS], *lr, *t, *scale;
} mr_optim_in_t;

struct mr_optim_def {
  const char *name;
  int n_slots;
  /* The config with the usual settings. */
  mr_optim_t usual;
  /* Appends the update to f: out[0] is the new p, out[1 + i] the new slot i. */
  mr_err_t (*update)(mr_fn_t *f, const mr_optim_t *o, const mr_optim_in_t *in, mr_var_t **out);
};

#define MR_OPTIM(name) extern const mr_optim_def_t mr_optim_##name;
#include "model/optim/list.def"
#undef MR_OPTIM

/* sgd, momentum, adam, adamw, lion, lamb with its usual settings; def is NULL for another name.
   Sources, beside optax: Kingma and Ba, "Adam" (2015); Loshchilov and Hutter, "Decoupled Weight
   Decay Regularization" (2019); Chen et al., "Symbolic Discovery of Optimization Algorithms" (2023,
   lion); You et al., "Large Batch Optimization for Deep Learning" (2020, lamb). */
mr_optim_t mr_optim_of(const char *name);
/* MR_ERR_CONFIG with setting, value and range. */
mr_err_t mr_optim_check(const mr_optim_t *o, mr_diag_t *diag);

/* What a step is made of.  The losses are one function traced `parts` times (with other dropout
   sites); part k gets the k-th of `parts` equal pieces, along dimension 0, of each data input with
   split[i], and the other data inputs whole.  parts = 1: split is not read. */
typedef struct mr_optim_loss {
  int n_data, parts;
  const mr_fn_t *const *part; /* [parts] (data[n_data], parameters...) -> (mean loss, aux...) */
  const bool *split;          /* [n_data] */
} mr_optim_loss_t;

/* How many tensors a step keeps for each parameter: itself, the slots, its average. */
int mr_optim_sets(const mr_optim_t *o);

/* *out: (data[n_data], lr f32[], t f32[], scale..., p..., slot 0..., slot 1..., average...) ->
         (mean loss, aux..., global gradient norm f32[] before clipping, scale..., p..., slot 0...,
         slot 1..., average...)
   average: mr_optim_ema of the new p, only with o->ema.
   scale: MR_SCALE_VARS scalars, only with o->dynamic.patience.  Gradients count as finite where
   their norm is; a step that is left out gives p, slots and average as they came, and t counts
   without such steps: the step's number less skipped is what the optimizer is told. Before the
   gradient the passes that help it run on the loss (transforms/passes.h). With several parts, the
   gradient is the mean of theirs, computed one after the other in the memory of one; an aux that is
   a scalar is averaged, another is joined along dimension 0.  The caller destroys *out. Errors:
   mr_optim_check's; MR_ERR_CONFIG for no parts or no parameters; MR_ERR_SHAPE where parts differ,
   the loss is no scalar or it or a parameter not of f32, bf16 or f64; MR_ERR_NORULE as
   mr_value_and_grad. Source: optax.chain of clip_by_global_norm and the optimizer, and
   optax.MultiSteps for parts. */
mr_err_t mr_optim_step_fn(const mr_optim_loss_t *loss, const mr_optim_t *o, mr_fn_t **out,
                          mr_diag_t *diag);

/* Average of weights over time: decay * average + (1 - decay) * p, f32 (optax.incremental_update
   with step_size 1 - decay).  NULL as mr_lax_add. */
mr_var_t *mr_optim_ema(mr_fn_t *f, float decay, mr_var_t *average, mr_var_t *p);

MR_END_DECLS

#endif
