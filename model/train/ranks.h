/* The ranks of a step as threads of this process: steps that compute a share of the parts each, on
   parameters of their own, and exchange sums in their graphs.  Rank 0 is the step of the caller, on
   the caller's thread; the others are kept here.  All ranks compute the same update, so that their
   parameters have the same bits after each step.  Shared by train.c and ranks.c; one thread calls.
 */
#ifndef MR_MODEL_TRAIN_RANKS_H
#define MR_MODEL_TRAIN_RANKS_H

#include "model/exec/comm.h"
#include "model/train/train.h"

#define MR__RANKS_AXIS "ranks" /* of their exchange */

typedef struct mr__ranks mr__ranks_t;

/* Creates the steps of config->ranks ranks, in [2,1024], and the threads of all but rank 0, whose
   step becomes *own and whose caller destroys it before *out.  Each rank has its share of
   config->compute.threads, or of the processors, at least one thread.  MR_OK; MR_ERR_NOMEM, or as
   mr_train_step_create fails. */
mr_err_t mr__ranks_create(const mr_loss_t *l, const mr_train_config_t *config, mr__ranks_t **out,
                          mr_train_step_t **own, mr_diag_t *diag);
void mr__ranks_destroy(mr__ranks_t *r); /* NULL is fine */

/* Prepares a run of the other ranks, as rank 0's step has prepared its own: `own` is the scale and
   fp8 state that all begin with, and params are copied to ranks that do not have their values.
   MR_OK; MR_ERR_NOMEM; or as mr_train_step_run fails: no rank runs then. */
mr_err_t mr__ranks_prepare(mr__ranks_t *r, mr_train_step_t *own, const mr_params_t *params,
                           const void *const *field, const mr_train_in_t *given, mr_diag_t *diag);
/* Runs all ranks, rank 0 as start(own) on this thread; returns when all have ended. */
void mr__ranks_run(mr__ranks_t *r, void (*start)(mr_train_step_t *own), mr_train_step_t *own);
void mr__ranks_begun(mr__ranks_t *r); /* the run counts on all ranks */
/* The host has changed rank 0's parameters, or the last run has not updated them: the next
   run begins with copies of them. */
void mr__ranks_stale(mr__ranks_t *r);
/* Reads the oldest unread run of the other ranks.  MR_OK, or MR_ERR_DATA if a rank has reported
   other numbers than rank 0, n of them. */
mr_err_t mr__ranks_read(mr__ranks_t *r, const float *reported, int n, mr_diag_t *diag);
/* Whether the ranks update shares of one rank's slots (mr_train_config_t.zero). */
bool mr__ranks_share(const mr__ranks_t *r);
/* Sets a gate (mr_exec_gate) of all ranks but rank 0, which any of their threads calls. */
void mr__ranks_gate(mr__ranks_t *r, bool (*may_write)(void *arg), void *arg);
/* Copies the parts of the other ranks of a mesh into whole parameters. */
void mr__ranks_join(const mr__ranks_t *r, mr_params_t *whole);
void mr__ranks_retake(mr__ranks_t *r); /* as mr_train_step_retake, on the other ranks */

/* Implemented in train.c: the step of one rank, comm NULL for a step without ranks; and the
   half of its run that does not compute yet: values are those of params, and what the rank has a
   share of is in shares, which may be params. */
mr_err_t mr__train_step_of_rank(const mr_loss_t *l, const mr_train_config_t *config,
                                const mr_comm_rank_t *comm, mr_train_step_t **out, mr_diag_t *diag);
/* Plans the step of one rank, as mr_train_step_plan_rank. */
mr_err_t mr__train_step_plan_of_rank(const mr_loss_t *l, const mr_train_config_t *config,
                                     const mr_comm_rank_t *comm, mr_params_t *list, mr_exec_t **out,
                                     mr_diag_t *diag);
/* Of a rank of a mesh that cuts arrays, whose comm has the mesh's axes: its parts are parts of
   params from now on, unless they were; they may not be any more; prepare for these parts and
   the rank's records of the batch; and copies of them in whole parameters. */
void mr__train_step_take_parts(mr_train_step_t *t, const mr_params_t *params);
void mr__train_step_stale(mr_train_step_t *t);
mr_err_t mr__train_step_prepare_parts(mr_train_step_t *t, const void *const *field,
                                      const mr_train_in_t *given, mr_diag_t *diag);
void mr__train_step_join_parts(const mr_train_step_t *t, mr_params_t *whole);
mr_err_t mr__train_step_prepare(mr_train_step_t *t, const mr_params_t *params,
                                const mr_params_t *shares, const void *const *field,
                                const mr_train_in_t *given, mr_diag_t *diag);

#endif
