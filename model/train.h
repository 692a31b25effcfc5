/* A loss compiled for training and for evaluation: what a stage runs.

   A run may end later than its call: what it tells is read from a small ring, in order, and nothing
   else waits for it.  Scalars go in by value.  Steps do not share state: each may run in a thread
   of its own, one run at a time.  What is created is the caller's to destroy.  B: records of a
   batch. */
#ifndef MR_MODEL_TRAIN_H
#define MR_MODEL_TRAIN_H

#include "base/decls.h"
#include "model/exec/exec.h"
#include "model/nn/loss.h"
#include "model/optim/optim.h"

MR_BEGIN_DECLS

enum { MR_TRAIN_RING = 4 }; /* runs whose results are not read yet, at most */

typedef struct mr_train_config {
  mr_optim_t optim;
  mr_compute_t compute;
  int64_t batch;      /* records of one step */
  int64_t accumulate; /* parts the batch is worked through in; divides it */
} mr_train_config_t;

/* AdamW with its usual settings, bf16, the whole batch at once. */
mr_train_config_t mr_train_default(int64_t batch);

/* The graph of a step: (the data of mr_loss_fn, lr f32[], t f32[], scale..., p..., slots...,
   average...) -> (told f32 (MR_TOLD_METRICS + n_metrics), scale..., p..., slots..., average...), as
   mr_optim_step_fn has them.  list (zeroed before) gets the parameters' names and places; the
   caller gives back both.  MR_ERR_CONFIG names the setting: of the model, the optimizer, or
   accumulate. */
mr_err_t mr_train_step_fn(const mr_loss_t *l, const mr_train_config_t *t, mr_params_t *list,
                          mr_fn_t **out, mr_diag_t *diag);
/* What told holds: the mean loss of the records that count, the global norm of the gradients before
   clipping, that of the parameters after the step, the number of records that count, and for each
   metric the sum over them. */
enum { MR_TOLD_LOSS, MR_TOLD_GRAD_NORM, MR_TOLD_PARAM_NORM, MR_TOLD_COUNTED, MR_TOLD_METRICS };
/* How many of the last inputs a step works on in place: all of its sets. */
int mr_train_step_in_place(const mr_train_config_t *t, const mr_params_t *list);

typedef struct mr_train_step mr_train_step_t;

/* The scalars of a run. */
typedef struct mr_train_in {
  int64_t step;  /* from 1 */
  uint64_t seed; /* of dropout masks, with step */
  float lr;
} mr_train_in_t;

typedef struct mr_train_out {
  int64_t step;
  float loss;       /* mean over the records that count, before the update */
  float grad_norm;  /* global, before clipping */
  float param_norm; /* global, after the step */
  float loss_scale; /* what the loss was multiplied by before its gradient */
  bool applied;     /* false: the gradients were not finite, and nothing was changed */
  double counted;   /* records that count */
  double metric[MR_LOSS_METRICS]; /* means over them; 0 where there is none */
} mr_train_out_t;

/* Compiles forward, backward and update.  MR_ERR_CONFIG names the setting, MR_ERR_NOMEM the planned
   peak. */
mr_err_t mr_train_step_create(const mr_loss_t *l, const mr_train_config_t *config,
                              mr_train_step_t **out, mr_diag_t *diag);
/* What such a step would take: the planned peak of its arena in bytes, and what it computes and
   moves (cost.h) at 10 operations a byte, as a number to compare plans by.  Takes no arena.
   MR_ERR_CONFIG names the setting. */
typedef struct mr_train_plan {
  size_t peak;
  double cost;
} mr_train_plan_t;
mr_err_t mr_train_step_plan(const mr_loss_t *l, const mr_train_config_t *config,
                            mr_train_plan_t *out, mr_diag_t *diag);
/* Begins a step, in place on params' values, on its slots as far as the optimizer has them, and
   with optim.ema on its average, which params then has.  field[i]: the batch of the loss's field i,
   64-aligned, and behind them the mask f32 (B) of a loss that is masked; they and params must stand
   until the run is read.  A record that does not count weighs nothing; the weight of the others in
   the gradient, 1/B, stays.  Before anything is changed: MR_ERR_SHAPE for another model's
   parameters, MR_ERR_DATA for a label that is no class, MR_ERR_CONFIG where the average has no room
   or MR_TRAIN_RING runs are unread, or what wait (below) returned. */
mr_err_t mr_train_step_run(mr_train_step_t *s, mr_params_t *params, const void *const *field,
                           const mr_train_in_t *in, mr_diag_t *diag);
/* What the oldest unread run tells: MR_OK; MR_AGAIN: it has not ended (never with wait, which waits
   for it); MR_END: all runs are read. */
mr_err_t mr_train_step_read(mr_train_step_t *s, bool wait, mr_train_out_t *out);
/* While a run works on forward and backward, others may read params; wait is called once a run,
   before the first write to them.  Its failure ends the run with that error and params as they
   were.  NULL (at first): there are no readers. */
void mr_train_step_before_update(mr_train_step_t *s, mr_err_t (*wait)(void *arg), void *arg);
/* With optim.dynamic: the loss scale's state, which each run takes and leaves changed.  At first
   mr_scale_state_start(optim.dynamic.start); a resume writes it before the first run.  To be looked
   at while all runs are read. */
mr_scale_state_t *mr_train_step_scale(mr_train_step_t *s);
const mr_exec_t *mr_train_step_exec(const mr_train_step_t *s); /* for its graph and its peak */
mr_exec_t *mr_train_step_profiled(mr_train_step_t *s);         /* for mr_exec_profile */
void mr_train_step_destroy(mr_train_step_t *s);                /* NULL is fine */

typedef struct mr_eval_step mr_eval_step_t;

/* What an evaluation tells of each record; of the step, until MR_TRAIN_RING more runs. */
typedef struct mr_eval_rows {
  const float *losses; /* [B], 0 where a record does not count */
  const float *counts; /* [B], 1 or 0 */
  const float *guess;  /* [B], the class that is answered; NULL: answers are no classes */
  const float *metric[MR_LOSS_METRICS]; /* [B] each */
} mr_eval_rows_t;

/* Without what only training does.  lender: a training step that never runs at the same time and is
   destroyed later; evaluation then works in its memory.  NULL: none.  Errors as
   mr_train_step_create. */
mr_err_t mr_eval_step_create(const mr_loss_t *l, const mr_compute_t *c, int64_t batch,
                             const mr_train_step_t *lender, mr_eval_step_t **out, mr_diag_t *diag);
/* By the set of mr_params_judged.  A partial batch is padded by the caller with records that do not
   count.  Fields stand until the run is read; errors as mr_train_step_run. */
mr_err_t mr_eval_step_run(mr_eval_step_t *s, const mr_params_t *params, const void *const *field,
                          mr_diag_t *diag);
/* As mr_train_step_read. */
mr_err_t mr_eval_step_read(mr_eval_step_t *s, bool wait, mr_eval_rows_t *out);
void mr_eval_step_destroy(mr_eval_step_t *s); /* NULL is fine */

MR_END_DECLS

#endif
