/* A model compiled for training and for evaluation: what a stage runs.

   B: records of a batch.  Steps do not share state: each may run in a thread of its own, one run at
   a time.  What is created is the caller's to destroy. */
#ifndef MR_MODEL_TRAIN_H
#define MR_MODEL_TRAIN_H

#include "base/decls.h"
#include "model/exec/exec.h"
#include "model/nn/vit.h"
#include "model/optim/optim.h"

MR_BEGIN_DECLS

/* Fills the list and takes the arenas: values by the initialisers from seed, moments zero.  params
   is zeroed before but for averaged; mr_params_fini gives back, also after a failure.
   MR_ERR_CONFIG as mr_vit_check, MR_ERR_NOMEM names the bytes. */
mr_err_t mr_vit_params(const mr_vit_config_t *c, uint64_t seed, mr_params_t *params,
                       mr_diag_t *diag);

/* The list alone, without arenas: names and shapes, for who has to look before taking memory. */
mr_err_t mr_vit_params_list(const mr_vit_config_t *c, mr_params_t *params, mr_diag_t *diag);

typedef struct mr_train_config {
  mr_optim_t optim;
  float label_smoothing; /* [0,1) */
  int64_t batch;         /* records of one step */
  int64_t accumulate;    /* parts the batch is worked through in; divides it */
} mr_train_config_t;

/* AdamW with its usual settings, the whole batch at once. */
mr_train_config_t mr_train_default(int64_t batch);

/* The graph of a step, as mr_optim_step_fn says, on the data of mr_vit_loss.  list (zeroed before)
   gets the parameters' names and places; the caller gives back both.  MR_ERR_CONFIG names the
   setting: of the model, the optimizer, or accumulate. */
mr_err_t mr_train_step_fn(const mr_vit_config_t *c, const mr_train_config_t *t, mr_params_t *list,
                          mr_fn_t **out, mr_diag_t *diag);

typedef struct mr_train_step mr_train_step_t;

typedef struct mr_train_out {
  float loss;          /* mean over the records with a label, before the update */
  float grad_norm;     /* global, before clipping */
  float loss_scale;    /* what the loss was multiplied by before its gradient */
  bool applied;        /* false: the gradients were not finite, and nothing was changed */
  const float *logits; /* (B,classes); of the step, until its next run */
} mr_train_out_t;

/* Compiles forward, backward and update.  MR_ERR_CONFIG names the setting, MR_ERR_NOMEM the planned
   peak. */
mr_err_t mr_train_step_create(const mr_vit_config_t *c, const mr_train_config_t *config,
                              mr_train_step_t **out, mr_diag_t *diag);
/* What such a step would take: the planned peak of its arena in bytes, and what it computes and
   moves (cost.h) at 10 operations a byte, as a number to compare plans by.  Takes no arena.
   MR_ERR_CONFIG names the setting. */
typedef struct mr_train_plan {
  size_t peak;
  double cost;
} mr_train_plan_t;
mr_err_t mr_train_step_plan(const mr_vit_config_t *c, const mr_train_config_t *config,
                            mr_train_plan_t *out, mr_diag_t *diag);
/* One step, in place on params' p, its slots m and v as far as the optimizer has them, and with
   optim.ema its average, which params then has; blocks.
   images (B,H,W,C) f32, labels (B) i32, both 64-aligned.  t counts from 1 and, with seed, decides
   the dropout masks.  A record labelled MR_LABEL_NONE (base/label.h) weighs nothing; the
   weight of the others in the gradient, 1/batch, stays.  Before anything is changed: MR_ERR_SHAPE
   for another model's parameters, MR_ERR_DATA for a label that is no class, MR_ERR_CONFIG where the
   average has no room, or what wait (below) returned. */
mr_err_t mr_train_step_run(mr_train_step_t *s, mr_params_t *params, const float *images,
                           const int32_t *labels, float lr, int64_t t, uint64_t seed,
                           mr_train_out_t *out, mr_diag_t *diag);
/* While a run works on forward and backward, others may read params; wait is called once a run,
   before the first write to them.  Its failure ends the run with that error and params as they
   were.  NULL (at first): nobody reads. */
void mr_train_step_before_update(mr_train_step_t *s, mr_err_t (*wait)(void *arg), void *arg);
/* With optim.dynamic: the loss scale's state, which each run takes and leaves changed.  At first
   mr_scale_state_start(optim.dynamic.start); who resumes writes it before the first run. */
mr_scale_state_t *mr_train_step_scale(mr_train_step_t *s);
const mr_exec_t *mr_train_step_exec(const mr_train_step_t *s); /* for its graph and its peak */
mr_exec_t *mr_train_step_profiled(mr_train_step_t *s);         /* for mr_exec_profile */
void mr_train_step_destroy(mr_train_step_t *s);                /* NULL is fine */

typedef struct mr_eval_step mr_eval_step_t;

/* Without dropout and smoothing.  lender: a training step that never runs at the same time and is
   destroyed later; evaluation then works in its memory.  NULL: none.  Errors as
   mr_train_step_create. */
mr_err_t mr_eval_step_create(const mr_vit_config_t *c, int64_t batch, const mr_train_step_t *lender,
                             mr_eval_step_t **out, mr_diag_t *diag);
/* By the values of mr_params_judged.  logits (B,classes) and losses (B), one per record: of the
   step, until its next run.  A partial batch is padded by the caller with MR_LABEL_NONE, whose loss
   is 0.  MR_ERR_SHAPE and MR_ERR_DATA as mr_train_step_run. */
mr_err_t mr_eval_step_run(mr_eval_step_t *s, const mr_params_t *params, const float *images,
                          const int32_t *labels, const float **logits, const float **losses,
                          mr_diag_t *diag);
void mr_eval_step_destroy(mr_eval_step_t *s); /* NULL is fine */

MR_END_DECLS

#endif
