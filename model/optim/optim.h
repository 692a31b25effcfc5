/* Optimizers as functions of the graph: one step updates a parameter and its slots, the tensors
   that the optimizer keeps for it (momentum, second moment).

   An optimizer is one constant with a line in list.def, in a file with its family.  Arithmetic and
   defaults are optax's (https://optax.readthedocs.io); tests compare with it.  table.c has the
   table and the checks, step.c and the files beside it the graph of a step. */
#ifndef MR_MODEL_OPTIM_H
#define MR_MODEL_OPTIM_H

#include "base/decls.h"
#include "model/control/fp8.h"
#include "model/ops/lax.h"
#include "model/optim/loss_scale.h"
#include "model/optim/pipeline.h"

MR_BEGIN_DECLS

enum { MR_OPTIM_SLOTS = 2 };   /* the most slots of an optimizer */
#define MR_OPTIM_REACH "reach" /* the scope, in the optimizer's, of what looks at o->below */
/* The scope of what a rank gives the others of its loss and its metrics: the last equations of its
   forward pass, before an exchange in which gradients go too. */
#define MR_OPTIM_POSTED "exchange/posted"

/* The scope of what brings a rank the values of parameters that others have. */
#define MR_OPTIM_GATHERED "exchange/gathered"

typedef struct mr_optim_def mr_optim_def_t;

typedef struct mr_optim {
  const mr_optim_def_t *def;
  float b1, b2;       /* decays of the first and the second moment, in [0,1); momentum: b1 */
  float eps;          /* adam, adamw, lamb: added to the root of the second moment, in [0,1] */
  float weight_decay; /* decoupled, for every parameter, in [0,100); adamw, lion and lamb use it */
  float clip_norm;    /* gradients are scaled to at most this global norm, in [0,1e9]; 0: never */
  float loss_scale;   /* factor of the loss in the backward pass, removed after it; [0,1e9], 0: 1 */
  mr_loss_scale_t dynamic; /* with patience: a dynamic scale instead of loss_scale */
  /* A step whose loss or gradient norm is not finite leaves parameters, slots and average unchanged
     and is counted in the scale's state.  After dynamic.max_bad of them in a row the next one is
     not applied either, nor is any later step. */
  bool only_finite;
  /* > 0, with mr_optim_counts: a step that would give a parameter with a magnitude not below this
     is one that is not finite.  For parameters that the caller rounds to a dtype of a small range;
     the updates are computed twice for it, a parameter at a time.  0: no limit */
  float below;
  float ema;       /* decay of an average of the parameters over time, in [0,1); 0: none */
  float ema_after; /* the average began after this many applied steps, >= 0 */
  bool nesterov;   /* momentum: looks ahead by one step */
} mr_optim_t;

/* The values of one parameter: p, g and the slots have the same shape and dtype, f32, bf16, f16
   or f64.  lr and scale are scalars of that dtype; g is multiplied by scale first.  t is the number
   of the step, from 1, f32[].  bf16 and f16 are rounded after each operation, as optax does
   outside of jit: in f16 an eps below 3e-8 is 0, and Adam then gives NaN for a gradient of 0. */
typedef struct mr_optim_in {
  mr_var_t *p, *g, *slot[MR_OPTIM_SLOTS], *lr, *t, *scale;
  mr_var_t *apply; /* for an update that chooses: bool[], false: all stays; NULL: true */
} mr_optim_in_t;

struct mr_optim_def {
  const char *name;
  int n_slots;
  const char *slot[MR_OPTIM_SLOTS]; /* [n_slots] what checkpoints call them: "adam.m" */
  bool chooses; /* update reads in->apply; else the step selects between its results and the old */
  /* The default settings; def is NULL here. */
  mr_optim_t usual;
  /* Appends the update to f: out[0] is the new p, out[1 + i] the new slot i.  MR_OK, or the
     failure in f->diag. */
  mr_err_t (*update)(mr_fn_t *f, const mr_optim_t *o, const mr_optim_in_t *in, mr_var_t **out);
};

#define MR_OPTIM(name) extern const mr_optim_def_t mr_optim_##name;
#include "model/optim/list.def"
#undef MR_OPTIM

/* Returns the optimizer of that name (sgd, momentum, adam, adamw, lion, lamb) with its default
   settings; for another name def is NULL.  Sources, beside optax: Kingma and Ba, "Adam" (2015);
   Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (2019); Chen et al., "Symbolic
   Discovery of Optimization Algorithms" (2023, lion); You et al., "Large Batch Optimization for
   Deep Learning" (2020, lamb). */
mr_optim_t mr_optim_of(const char *name);
/* MR_OK, or MR_ERR_CONFIG with setting, value and range, also if o->def is NULL. */
mr_err_t mr_optim_check(const mr_optim_t *o, mr_diag_t *diag);

/* Ranks of a communicator (exec/comm.h) that share the parts of a tree. */
typedef struct mr_optim_ranks {
  int rank, size;
  const char *axis; /* the communicator's */
  /* 0: each rank updates all parameters.  1: a rank updates its share of them, for which alone it
     has slots and an average, and receives the others' new values.  2: the same, and a gradient
     goes to the rank that updates it as soon as the backward pass of a rank's last part has made
     it.  3: the same, and a rank has the values of its share alone: those of others come before
     each pass of each part that reads them. */
  int zero;
  /* Each rank computes a stage of parts instead of whole parts.  size is a multiple of the stages:
     that many pipelines share the parts, as ranks without stages do, and rank r has stage r / P of
     pipeline r % P, of P.  It updates its share of the parameters of its stage as with zero=1,
     which zero is then, or 3: it has values of its share alone, and those of its stage from the
     first of its passes to the last.  Parts have equal numbers of records.  NULL: none. */
  const mr_pipeline_t *pipeline;
} mr_optim_ranks_t;
/* Returns the first of n parameters that is in the share of a rank in [0,ranks]; that of rank
   `ranks` is n.  size(arg, i) is the number of elements of parameter i.  Shares are neighbours, the
   largest one is as small as can be, and the last ranks may have none. */
int mr_optim_share_from(int n, int64_t (*size)(const void *arg, int i), const void *arg, int ranks,
                        int rank);
/* Returns the first of the parts that a rank in [0,size] computes, size <= parts; that of rank
   `size` is parts.  If they are uneven the first ranks have a part more. */
int mr_optim_rank_from(int parts, int size, int rank);

/* How a step updates one parameter. */
typedef struct mr_optim_each {
  float rate;  /* factor of the learning rate, >= 0 */
  bool decays; /* with the optimizer's weight decay */
  /* It is not updated, has no part in the norm of the gradients, and its slots and average stay. */
  bool frozen;
} mr_optim_each_t;

/* The loss of a step: one function, traced `parts` times with different dropouts.  Part k reads the
   k-th of `parts` pieces, along dimension 0, of each data input i with split[i], and the other data
   inputs whole.  Pieces may differ in their number of records if all split inputs of a part have
   the same.  With parts = 1, split is not read.  The caller keeps everything. */
typedef struct mr_optim_loss {
  int n_data, parts;
  /* Parts are added as a binary tree, ((0+1)+(2+3))+((4+5)+(6+7)), so that parts
     [k 2^d, (k+1) 2^d) alone give one of its sums; parts is a power of two then.  Else one after
     the other. */
  bool tree;
  const mr_fn_t *const *part;  /* [parts] (data[n_data], parameters...) -> (mean loss, aux...) */
  const bool *split;           /* [n_data] */
  const mr_optim_each_t *each; /* of each parameter; NULL: all alike, with weight decay */
  /* Where the gradient of each parameter is to lie on a mesh (mr_lax_shard; NULL: anywhere) before
     anything reads it.  Without ranks alone.  NULL: nothing is said. */
  const char *const *lies;
  /* Without ranks but those of stages: where each parameter is to lie on the mesh while the loss
     reads it (NULL: it lies so).  It is put there before the first equation of either pass of a
     part that reads it, and nothing of it stays from the forward to the backward pass; of a stage,
     where values that other ranks have given whole stay.  NULL: as it lies. */
  const char *const *reads;
  /* Of mr_optim_step_fn alone, with a tree: its graph is that of one rank, which reads the whole
     data inputs, computes its parts, gathers what the others have, and adds all of it as a graph
     without ranks does: results have the same bits on any number of ranks.  NULL: none. */
  const mr_optim_ranks_t *ranks;
  /* mr_fp8_products was applied to the parts: their last input, behind the parameters, has the
     scales.  NULL: it was not. */
  const mr_fp8_t *fp8;
} mr_optim_loss_t;

/* Whether a step keeps MR_SCALE_VARS scalars: for a dynamic scale, or to count skipped steps. */
bool mr_optim_counts(const mr_optim_t *o);
/* Returns how many tensors a step updates for each parameter: its value, the slots, and its
   average if o->ema.  o->def must be set. */
int mr_optim_sets(const mr_optim_t *o);

/* *out: (data[n_data], lr f32[], t f32[], scale..., fp8..., p..., slot 0..., slot 1...,
         average...) -> (mean loss, aux..., global gradient norm f32[] before clipping, scale...,
         fp8..., p..., slot 0..., slot 1..., average...)
   average: mr_optim_debiased_ema of the new p, only with o->ema.
   fp8: scales f32[n,MR_FP8_TENSORS] and history f32[history,n,MR_FP8_TENSORS] of mr_fp8_next, only
   with loss->fp8.  The magnitudes of a step are the largest of its parts.  Codes are clamped, which
   would hide one that is not finite: an operand's replaces the loss, a cotangent's the norm.  A
   skipped step leaves both.

   scale: MR_SCALE_VARS scalars, only if mr_optim_counts(o).  Gradients count as finite if their
   norm is finite; with o->only_finite the loss must be finite too, and with o->below what they make
   of the parameters must be below it.  A skipped step returns p, slots
   and average unchanged, and the optimizer does not count it: its step number is t less the skipped
   steps.

   The passes that spare the backward pass work run on the loss first (transforms/passes.h).  With
   several parts the gradient is the mean over the parts, each weighted by its records, which are
   computed one after the other in the memory of one; a tree keeps a sum for each of its levels.  An
   aux that is a scalar is averaged alike; any other is concatenated along dimension 0.

   With loss->ranks and zero >= 1 slots and average are those of the rank's share alone, of
   parameters [mr_optim_share_from(rank), mr_optim_share_from(rank + 1)), or with a pipeline such a
   share of those of its stage.  With zero = 3 so are the p of inputs and results.

   MR_OK: the caller destroys *out.  Errors: those of mr_optim_check; MR_ERR_CONFIG for no parts, a
   tree of a number of parts that is no power of two, more ranks than parts, ranks without a tree,
   pipelines that do not fit the ranks or the loss (mr_pipeline_cut), or no parameters, and those
   of mr_fp8_check; MR_ERR_SHAPE if parts differ, ranks would exchange what f32 does not hold, the
   last input is not scales with fp8, the loss is not a scalar, or the loss or a parameter is not
   f32, bf16, f16 or f64; MR_ERR_NORULE as mr_value_and_grad; MR_ERR_NOMEM.  Source: optax.chain of
   clip_by_global_norm and the optimizer, and optax.MultiSteps for parts. */
mr_err_t mr_optim_step_fn(const mr_optim_loss_t *loss, const mr_optim_t *o, mr_fn_t **out,
                          mr_diag_t *diag);

/* What parts [from,to) add to such a step: (its inputs, those that are split with the records of
   these parts alone) -> (loss, aux..., amax f32[n,MR_FP8_TENSORS] with loss->fp8, gradients...).
   Loss, scalars and gradients are sums in the step's order, weighted by the records of a part in
   those of all parts, and gradients have the loss scale in them.  The sum of parts [0,parts) is the
   step's; with a tree it is the sum of what two halves of [0,parts) give, and so on down to
   parts.  [from,to) is not empty and lies in [0,parts).  Returns as mr_optim_step_fn. */
mr_err_t mr_optim_parts_fn(const mr_optim_loss_t *loss, const mr_optim_t *o, int from, int to,
                           mr_fn_t **out, mr_diag_t *diag);

/* The average of weights over time: decay * average + (1 - decay) * p, in their dtype
   (optax.incremental_update with step_size 1 - decay).  Belongs to f; NULL as mr_lax_add. */
mr_var_t *mr_optim_ema(mr_fn_t *f, float decay, mr_var_t *average, mr_var_t *p);
/* The same for an average that starts from nothing and is debiased, as optax.ema's default is:
   after `count` steps, f32[] from 1, the weights of step i count by decay^(count-i), and all such
   factors add up to 1.  average: of count - 1 steps; of no step, any finite numbers. */
mr_var_t *mr_optim_debiased_ema(mr_fn_t *f, float decay, mr_var_t *count, mr_var_t *average,
                                mr_var_t *p);

MR_END_DECLS

#endif
