/* Compiled steps: a loss compiled for training, and for evaluation.

   A call of run begins a step, and a call of read fetches its numbers (loss, norms, metrics) from a
   ring of MR_TRAIN_RING runs, in order.  On the CPU a run has ended when its call returns.  On a
   device (mr_compute_t.device) it is then under way, and the parameters that it updates lie there:
   mr_params_t on the host is a copy, which mr_train_step_fetch brings up to date.  Scalars are
   passed by value.  Steps do not share state, so each may be used by a thread of its own; calls
   on one step must not overlap.  The caller destroys each step it creates.  B: records of a batch.
   Implemented in train.c and eval.c over step.c, and train_graph.c and rules.c. */
#ifndef MR_MODEL_TRAIN_TRAIN_H
#define MR_MODEL_TRAIN_TRAIN_H

#include "base/decls.h"
#include "model/exec/exec.h"
#include "model/nn/loss.h"
#include "model/optim/optim.h"

MR_BEGIN_DECLS

enum { MR_TRAIN_RING = 4 }; /* at most this many runs may be unread */

/* Which parameters a step updates in their own way.  A pattern is a name, a name's beginning up to
   a dot, or a form of names with * and ?; several are separated by commas. */
typedef struct mr_train_rules {
  const char *freeze; /* those that stay as they are; NULL: none */
  /* Those without weight decay; `vectors` are biases and what has at most one dimension.  NULL: as
     the loss says; "none": all decay. */
  const char *no_decay;
  /* The factor of the learning rate from a layer to the one before it, in (0,1]; 0: 1.  Parameters
     with the same first number in their names are a layer; those before all of these are the first
     layer, and those after them the last, which has the learning rate itself. */
  double layer_decay;
} mr_train_rules_t;

/* Sets *out to how each parameter of the list is updated by these rules, heap, which the caller
   frees; NULL if all are updated alike.  usual: mr_loss_t.no_decay.  MR_OK; MR_ERR_CONFIG for a
   pattern that means none, with the nearest names, or if nothing would be trained; MR_ERR_NOMEM.
   Implemented in rules.c. */
mr_err_t mr_train_each(const mr_params_t *list, const mr_train_rules_t *r, const char *usual,
                       mr_optim_each_t **out, mr_diag_t *diag);

/* Chooses initialisers by name before mr_params_init draws: rules are NAME, for all kernels, or
   PATTERN=NAME, separated by commas, of which later ones win; patterns are those of
   mr_train_rules_t. Names and arithmetic are those of jax.nn.initializers: zeros, ones, constant:V,
   normal:S, truncated_normal:S and uniform:S (S is 0.01 where it is left out), orthogonal:S and
   delta_orthogonal:S (1), lecun, glorot or xavier, he or kaiming with _normal or _uniform, and
   variance_scaling:S:MODE:DISTRIBUTION with fan_in, fan_out or fan_avg and truncated_normal, normal
   or uniform.  Those with fans and the orthogonal ones are for kernels alone: parameters called
   kernel or weight, of two dimensions or more; delta_orthogonal is for those of convolutions.
   MR_OK; MR_ERR_CONFIG for an unknown name, a pattern that means none, or one without kernels where
   they are needed; MR_ERR_NOMEM.  Implemented in init.c. */
mr_err_t mr_train_init(mr_params_t *list, const char *rules, mr_diag_t *diag);

typedef struct mr_train_config {
  const char *skip; /* passes to leave out, as mr_compile_options_t's; read by create alone */
  mr_optim_t optim;
  mr_train_rules_t rules;
  mr_compute_t compute;
  int64_t batch;      /* records of one step */
  int64_t accumulate; /* parts that the batch is split into, one after the other; divides it */
  /* Parts, a power of two of at most the batch, whose gradients are added as a binary tree, and
     whose records draw what they draw in a batch of one part; accumulate is 1 then.  0: none. */
  int64_t ordered;
  /* Ranks that share the ordered parts, at most a part each; 0 or 1: none.  A step creates all
     of them, as threads of this process with parameters of their own, and works as one: params,
     results and bits are those of a step without ranks. */
  int ranks;
  /* 0: each rank has all slots.  1: a rank updates its share of the parameters, whole ones
     (mr_optim_share_from), and has slots and average of these alone; the bits are the same.  Shares
     are parts of the caller's params, which all ranks of the process update; a process that is one
     rank has zeros for the others' (mr_train_step_whole).  2: gradients leave for the rank that
     updates them during the backward pass.  3: a rank has the values of its share alone too, and
     others' come before each pass that reads them.  Without ranks it is 0. */
  int zero;
  /* The ranks are the stages of pipelines, ranks / stages of them, which share the ordered parts,
     each of the same number of records; of P pipelines rank r has stage r / P of pipeline r % P.
     A rank updates its share of the parameters of its stage and has slots and average of these
     alone, as with zero=1, and with zero=3 the values, of which it has those of its stage during a
     step; the bits are the same.  With a mesh the stages are ranks
     along mr_mesh_batch, of which each is cut along the other axes.  stages 0: none. */
  mr_pipeline_t pipeline;
  /* This process has rank `rank` alone, and this is it in a communicator of `ranks`: runs exchange
     by collect_ops what others have computed, and all ranks run the same steps with the same whole
     batches and scalars.  A run whose exchange fails returns the table's failure, with params
     unchanged, or with zero undefined if others had left before they gave their new values.  It
     stays the caller's and outlives the step.  NULL: the step creates all ranks. */
  const struct mr_collect_ops *collect_ops;
  struct mr_collect *collect;
  int rank; /* in [0,ranks), with collect, and for mr_train_step_fn: the one whose graph it is */
  /* Ranks that compute parts of arrays instead of ordered parts, which is close to the results of
     one rank and has not their bits: of the batch along mr_mesh_batch, of parameters, slots and
     average as rules by name say (mesh/placement_rules.h).  ranks is that of the mesh; ordered is
     0 unless there are stages, accumulate 1; zero cuts slots and average along mr_mesh_batch too,
     with 3 the values, which are whole along it while a pass of the loss reads them.
     params are then a copy, which mr_train_step_fetch brings up to date, as on a device; from the
     end of a run to the next fetch they are zeros without memory.  NULL: none.  The mesh outlives
     the step. */
  const struct mr_mesh *mesh;
  const char *partition; /* those rules, read by create alone; NULL: none */
  const char *table;     /* the rules behind them, which may have names of no parameter; NULL */
  double limit_s;        /* with mesh and collect: how long a rank may keep the others waiting */
  bool there;            /* when a run begins its fields lie in the memory of compute.device
                            (model/train/slots.h), and their classes have been checked
                            (mr_train_check_classes); a mask never does */
} mr_train_config_t;

/* Returns AdamW with its default settings, products in bf16, and the batch in one part. */
mr_train_config_t mr_train_default(int64_t batch);

enum { MR_ORDERED_MOST = 256, MR_ZERO_MOST = 3 };
/* MR_OK, or MR_ERR_CONFIG if batch, accumulate, ordered, ranks, zero and pipeline do not go
   together. */
mr_err_t mr_train_parts_check(const mr_train_config_t *t, mr_diag_t *diag);
/* Returns the number of parts that a step of t works through, which mr_train_parts_check accepts,
   and the first record of part k in [0,parts]; that of the last is the batch.  If they are uneven
   the first parts have a record more. */
int64_t mr_train_parts(const mr_train_config_t *t);
int64_t mr_train_part_at(const mr_train_config_t *t, int64_t k);
struct mr_placement; /* mesh/placement.h */
/* Settles what a rank has of the parameters of list by the rules of t, which has a mesh:
   part[list->n] and how they lie, at[list->n]; each may be NULL.  MR_OK; MR_ERR_CONFIG: an axis
   that the mesh lacks or that cuts no parameter, a placement of another length, or a pattern of no
   parameter, with the nearest name; MR_ERR_SHAPE: a dimension that does not divide, and by how
   much; MR_ERR_NOMEM. Implemented in cut.c. */
mr_err_t mr_train_cut_parts(const mr_train_config_t *t, const mr_params_t *list, mr_aval_t *part,
                            struct mr_placement *at, mr_diag_t *diag);
/* The same of its slots and average, which t->zero cuts further. */
mr_err_t mr_train_cut_slots(const mr_train_config_t *t, const mr_params_t *list, mr_aval_t *part,
                            mr_diag_t *diag);
/* The graph of a step: (the data of mr_loss_fn, lr f32[], t f32[], scale..., fp8..., p...,
   slots..., average...) -> (reported f32 (MR_REPORT_METRICS + n_metrics), scale..., fp8..., p...,
   slots..., average...), as mr_optim_step_fn has them, p and slots in the dtypes that compute keeps
   them in. list, zeroed before, receives the parameters' names and places.  On success the caller
   destroys *out; it calls mr_params_fini on list in any case.  With ranks the graph is that of
   t->rank, and gathers over the axis "ranks" (mr_optim_loss_t.ranks); with a mesh it is that of
   each rank, on its parts, and communicates over the mesh's axes.  MR_OK; MR_ERR_CONFIG names the
   setting of the model or of the optimizer, accumulate or ordered; MR_ERR_NOMEM; or an error of the
   loss's own functions.
 */
mr_err_t mr_train_step_fn(const mr_loss_t *l, const mr_train_config_t *t, mr_params_t *list,
                          mr_fn_t **out, mr_diag_t *diag);
/* The elements of the vector that a step reports: the mean loss of the records that count, the
   global norm of the gradients before clipping, the norm of the parameters after the step, the
   number of records that count, and for each metric the sum over those records. */
enum {
  MR_REPORT_LOSS,
  MR_REPORT_GRAD_NORM,
  MR_REPORT_PARAM_NORM,
  MR_REPORT_COUNTED,
  MR_REPORT_METRICS
};
/* Returns how many of the last inputs of mr_train_step_fn's graph become its last outputs in place:
   the tensors of all of its sets, of t->rank's share alone where it has no others.  Cannot fail. */
int mr_train_step_in_place(const mr_train_config_t *t, const mr_params_t *list);
/* Requests the sets of params, before mr_loss_params or mr_params_alloc, in the dtypes that c keeps
   them in: values, the slots of o, and an average if o->ema.  o: NULL requests values alone, which
   is what an evaluation needs. */
void mr_train_want_sets(const mr_compute_t *c, const mr_optim_t *o, mr_params_t *params);

typedef struct mr_train_step mr_train_step_t;

/* The scalars of a run. */
typedef struct mr_train_in {
  int64_t step;  /* from 1 */
  uint64_t seed; /* with step, it seeds the dropout masks */
  float lr;
} mr_train_in_t;

/* The largest number of f16. */
#define MR_TRAIN_F16_MOST 65504.0f
/* The magnitude from which an updated parameter would round to an infinity, where parameters are
   kept in f16 alone: such a step is not finite (mr_optim_t.below).  0: kept in a wider dtype. */
float mr_train_limit(const mr_compute_t *c);

typedef struct mr_train_out {
  int64_t step;
  float loss;       /* mean over the records that count, before the update */
  float grad_norm;  /* global, before clipping */
  float param_norm; /* global, after the step, before parameters that are kept narrow are rounded */
  float loss_scale; /* the factor of the loss in the backward pass */
  bool applied;     /* false: the step was not finite, so no parameter was changed */
  /* Steps in a row up to this one that were not finite; 0 if none are counted.  If loss and
     grad_norm are finite and this is not 0, an updated parameter, kept in f16 alone, would round to
     an infinity. */
  int32_t bad;
  int32_t skipped;                /* steps up to this one that were not applied; likewise */
  double counted;                 /* records that count */
  double metric[MR_LOSS_METRICS]; /* means over those records; 0 if none counts */
} mr_train_out_t;

/* Compiles forward pass, backward pass and update, and takes their arena.  MR_OK; the errors of
   mr_train_step_fn and mr_compile: MR_ERR_CONFIG names the setting, MR_ERR_NOMEM the planned peak.
   l is copied, but what it points at must outlive the step. */
mr_err_t mr_train_step_create(const mr_loss_t *l, const mr_train_config_t *config,
                              mr_train_step_t **out, mr_diag_t *diag);
typedef struct mr_train_plan {
  size_t peak;        /* bytes of the arena */
  double flop, bytes; /* operations, and bytes moved (mr_cost_of) */
} mr_train_plan_t;
/* Plans such a step without taking its arena.  MR_OK, or the errors of mr_train_step_create, then
   with *out unchanged. */
mr_err_t mr_train_step_plan(const mr_loss_t *l, const mr_train_config_t *config,
                            mr_train_plan_t *out, mr_diag_t *diag);
/* Plans the step of rank t->rank among t->ranks threads of one process, as mr_train_step_create
   would compile it, without taking an arena: *out is for its graph, its peak and the causes of it,
   and cannot run.  list, zeroed before, receives the names and places of what the rank has: whole
   parameters, or its parts of a mesh.  The caller destroys *out on success, and ends list in any
   case.  MR_OK, or the errors of mr_train_step_create.  Implemented in ranks.c. */
mr_err_t mr_train_step_plan_rank(const mr_loss_t *l, const mr_train_config_t *t, mr_params_t *list,
                                 mr_exec_t **out, mr_diag_t *diag);
/* Sets [*from,*to) to the parameters of list whose slots and average rank t->rank of such a step
   updates: its share with zero, or of its stage in a pipeline, else all.  Cannot fail. */
void mr_train_share_of(const mr_train_config_t *t, const mr_params_t *list, int *from, int *to);
/* Begins a step.  It updates params' values in place, the slots that the optimizer uses, and with
   optim.ema the average, which params must have. field[i] is the batch of the loss's field i,
   64-aligned, or with config's `there` an address of the device, aligned as its backend says; a
   masked loss's mask f32 (B) follows them.  The fields and params must stay valid
   until the run is read.  A record that does not count has no weight; the weight of the others in
   the gradient stays 1/B.  On a device, the first run calls mr_train_step_put unless the caller
   has.

   MR_OK.  Every failure leaves params unchanged and nothing to read: MR_ERR_SHAPE for parameters of
   another model, MR_ERR_DATA for a label outside the classes, MR_ERR_CONFIG if the average is
   missing or MR_TRAIN_RING runs are unread, MR_ERR_UNAVAILABLE if the device has failed, or,
   without a sentence in diag, the failure that wait (mr_train_step_before_update) returned. */
mr_err_t mr_train_step_run(mr_train_step_t *s, mr_params_t *params, const void *const *field,
                           const mr_train_in_t *in, mr_diag_t *diag);
/* MR_OK, or MR_ERR_DATA if one of label[0,n) is outside the classes of a loss's field f, with the
   sentence of mr_train_step_run. */
mr_err_t mr_train_check_classes(const mr_model_field_t *f, const int32_t *label, int64_t n,
                                mr_diag_t *diag);
/* Reads the numbers of the oldest unread run into *out: MR_OK.  MR_AGAIN, only without wait: that
   run has not ended yet (never on the CPU).  MR_END: all runs have been read.  MR_ERR_UNAVAILABLE,
   never on the CPU: the device has failed; neither this run nor a later one counts. */
mr_err_t mr_train_step_read(mr_train_step_t *s, bool wait, mr_train_out_t *out, mr_diag_t *diag);
/* Copies params to the step's device, where runs read and update them: before the first run, and
   when the host has changed them, while no run is unread.  Nothing on the CPU.  MR_OK; MR_ERR_NOMEM
   names the bytes; MR_ERR_SHAPE for another model's; MR_ERR_UNAVAILABLE if the device has failed.
   The host's arrays may be pinned: they stay until other params are put or the step is destroyed.
 */
mr_err_t mr_train_step_put(mr_train_step_t *s, const mr_params_t *params, mr_diag_t *diag);
/* Makes the sets of the host's params, those that runs update, what the last run has left; waits
   for the runs that have begun, and before it writes, for the readers of
   mr_train_step_before_update.  Nothing on the CPU.  MR_OK; MR_ERR_UNAVAILABLE if the device has
   failed, or wait's failure: params are unchanged after either. */
mr_err_t mr_train_step_fetch(mr_train_step_t *s, mr_params_t *params, mr_diag_t *diag);
/* The same where ranks of a mesh have parts of params, or with zero processes shares of slots,
   average and with zero=3 values, which rank 0 alone receives: before an evaluation or another
   reader in the host's memory; nothing where params, or the device's, are what runs update.  Ranks
   that are processes all call it, and mr_train_step_fetch, at the same step.  Fails as
   mr_train_step_fetch; with MR_ERR_UNAVAILABLE also if a process does not come: some tensors of
   params are then of the last run and the others of an earlier one, so that nothing may read them.
 */
mr_err_t mr_train_step_whole(mr_train_step_t *s, mr_params_t *params, mr_diag_t *diag);
/* The same for evaluations alone: with zero rank 0 receives the average, or with zero=3 and without
   one the values, and no slots. */
mr_err_t mr_train_step_average(mr_train_step_t *s, mr_params_t *params, mr_diag_t *diag);
/* Sets [*from,*to) to the parameters whose slots and average this process has after a run without
   mr_train_step_whole: its share with zero where ranks are processes, else all.  Cannot fail. */
void mr_train_step_share(const mr_train_step_t *s, int *from, int *to);
/* Begins the same, behind the runs that have begun.  MR_AGAIN: params do not
   hold the values yet.  The next run may begin at once: its update waits, on the device, until they
   are copied.  mr_train_step_fetch_end tells when they are; before, nothing reads or writes params.
   MR_OK: they hold the values already, as without a device; or the errors of mr_train_step_fetch.
 */
mr_err_t mr_train_step_fetch_begin(mr_train_step_t *s, mr_params_t *params, mr_diag_t *diag);
/* Waits for it: MR_OK, also if nothing was begun; MR_ERR_UNAVAILABLE if the device has failed:
   params are undefined. */
mr_err_t mr_train_step_fetch_end(mr_train_step_t *s, mr_diag_t *diag);
/* Undoes the run that was read last and all that have begun since; none of them may have been
   applied.  Waits for them on a device, so that nothing reads their fields.  The next run begins
   with the loss scale's and fp8's state that the first of them began with. */
void mr_train_step_retake(mr_train_step_t *s);
/* Lets other threads read params during the forward and backward pass of a run.  Each run, or on a
   device each mr_train_step_fetch, calls wait(arg) once, on its own thread or, with zero, that of
   one of its ranks, before its first write to params; wait returns when no thread reads them.  A
   failure of wait ends the run with that error, and params stay unchanged.  NULL, as at first:
   there are no readers. */
void mr_train_step_before_update(mr_train_step_t *s, mr_err_t (*wait)(void *arg), void *arg);
/* Returns the loss scale's state, which each run reads and advances if mr_optim_counts; never NULL.
   It starts as mr_scale_state_start of optim.dynamic.start or of the fixed scale; a resume
   overwrites it before the first run.  The state belongs to the step; the pointer is valid until
   the next run.  Call it while no run is unread. */
mr_scale_state_t *mr_train_step_scale(mr_train_step_t *s);
/* The state of fp8 (mr_fp8_next) between two steps. */
typedef struct mr_train_fp8 {
  int n, history; /* products; steps that are remembered */
  float *scale;   /* [n][MR_FP8_TENSORS], 64-aligned */
  float *amax;    /* [history][n][MR_FP8_TENSORS], 64-aligned: what earlier steps have met */
} mr_train_fp8_t;
/* Returns the state of fp8 that the next run reads, for which all that mr_train_step_scale says
   holds: scales begin at 1, amax at 0.  n is 0 without compute.fp8. */
mr_train_fp8_t mr_train_step_fp8(const mr_train_step_t *s);
/* Which part of a step an equation of its compiled graph belongs to: forward, if the loss depends
   on it; update, if the optimizer traced it, the norm of the gradients included; else backward. */
typedef enum mr_train_part { MR_PART_FORWARD, MR_PART_BACKWARD, MR_PART_UPDATE } mr_train_part_t;
/* Returns the part of e, an equation of mr_exec_fn of the step's executable.  One thread at a
   time. */
mr_train_part_t mr_train_part_of(mr_train_step_t *s, const mr_eqn_t *e);
/* Returns the loss in f, the graph of mr_train_step_fn as traced or compiled; it belongs to f. NULL
   if f is no such graph. */
const mr_var_t *mr_train_loss_of(const mr_fn_t *f);
/* Both return the step's executable, never NULL; it belongs to s and lives as long as it.  The
   first is for its graph and peak, the second for mr_exec_profile. */
const mr_exec_t *mr_train_step_exec(const mr_train_step_t *s);
mr_exec_t *mr_train_step_profiled(mr_train_step_t *s);
void mr_train_step_destroy(mr_train_step_t *s); /* NULL is fine */

typedef struct mr_eval_step mr_eval_step_t;

/* The results of an evaluation for each record.  They belong to the step and are valid until
   MR_TRAIN_RING more runs have begun. */
typedef struct mr_eval_rows {
  const float *losses; /* [B], 0 where a record does not count */
  const float *counts; /* [B], 1 or 0 */
  const float *guess;  /* [B], the predicted class; NULL: the loss predicts no class */
  const float *metric[MR_LOSS_METRICS]; /* [B] each */
} mr_eval_rows_t;

/* Compiles the forward pass for evaluation, without dropout and the like, of parameters kept in
   c->values (of an average: f32). lender: a training step
   that never runs at the same time and is destroyed later; evaluation uses its arena if that is
   large enough, and on a device the parameters that it holds there.  NULL: none.  Errors as
   mr_train_step_create. */
mr_err_t mr_eval_step_create(const mr_loss_t *l, const mr_compute_t *c, int64_t batch,
                             mr_train_step_t *lender, mr_eval_step_t **out, mr_diag_t *diag);
/* Evaluates a batch with the set of mr_params_judged.  The caller pads a partial batch with records
   that do not count.  Fields must stay valid until the run is read.  MR_OK, or MR_ERR_SHAPE,
   MR_ERR_DATA, MR_ERR_CONFIG as in mr_train_step_run. */
mr_err_t mr_eval_step_run(mr_eval_step_t *s, const mr_params_t *params, const void *const *field,
                          mr_diag_t *diag);
/* Returns as mr_train_step_read does. */
mr_err_t mr_eval_step_read(mr_eval_step_t *s, bool wait, mr_eval_rows_t *out, mr_diag_t *diag);
void mr_eval_step_destroy(mr_eval_step_t *s); /* NULL is fine */
/* Returns its compiled function, which lives as long as it.  Cannot fail. */
const mr_exec_t *mr_eval_step_exec(const mr_eval_step_t *s);

MR_END_DECLS

#endif
