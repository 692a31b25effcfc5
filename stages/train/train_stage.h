/* The stage that trains, train-step or vit-step, as a program sees it in a graph.
   Implemented in def.c (definitions), plan.c and train_step.c. */
#ifndef MR_STAGES_TRAIN_TRAIN_STAGE_H
#define MR_STAGES_TRAIN_TRAIN_STAGE_H

#include "model/exec/exec.h"
#include "pipeline/graph/graph.h"

MR_BEGIN_DECLS

bool mr_is_train_stage(const mr_stage_t *s); /* false for any other stage */
/* The first one, owned by the graph; NULL without one. */
mr_stage_t *mr_train_stage(const mr_graph_t *g);

/* True if a setting of a training stage s describes its model: the model's name, or a setting that
   the model brings. */
bool mr_is_model_setting(const mr_stage_t *s, const char *setting);

/* Gives each stage to-device without a device, directly before the input `in` of a training stage,
   the device of that stage.  Before settle, after variables and overrides are set; the stage passes
   batches unchanged otherwise.  MR_OK, or MR_ERR_NOMEM.  Implemented in stages/to_device.c, as the
   next two. */
mr_err_t mr_train_stage_devices(mr_graph_t *g, mr_diag_t *diag);

/* Puts a stage to-device before the input `in` of each training stage whose device is not the CPU,
   unless its batches come from one, and then calls mr_train_stage_devices.  As that otherwise, but
   fails as mr_graph_insert and mr_graph_set too. */
mr_err_t mr_train_stage_copies(mr_graph_t *g, mr_diag_t *diag);

/* For mr_graph_on_missing, of a graph that mr_train_stage_copies changes later: puts the same
   stages in, on any device, if `name` is a setting of to-device, so that overrides reach them, and
   shard-to-device if it is one of that.  On the CPU they pass batches unchanged.  MR_OK, or
   MR_ERR_NOMEM. */
mr_err_t mr_train_stage_missing(mr_graph_t *g, const char *name, mr_diag_t *diag);

/* Lets each process of a job (model/exec/process_ranks.h) make its own slice alone of the batches
   that ranks share: sets host= and parts= of the stage before each shard-to-device, if that makes
   batches for nothing else; where another stage is between, each process makes whole batches.
   *whole, if not NULL, is set to the name of such a stage, owned by the graph, else to NULL.
   Nothing without a job.  Before settle, after variables and overrides are set.  MR_OK;
   MR_ERR_CONFIG if host= is set already; MR_ERR_NOMEM. */
mr_err_t mr_train_stage_slices(mr_graph_t *g, const char **whole, mr_diag_t *diag);

/* Whether the ranks have agreed to stop, because one of them was asked to.  s: of a graph that has
   run. */
bool mr_train_stage_stopped(const mr_stage_t *s);

/* Steps that the run will have made at its end; 0 if unknown.  s: of a settled graph. */
int64_t mr_train_stage_total(const mr_stage_t *s);

/* The learning rate of a step, from 1.  s: of a settled graph. */
double mr_train_stage_rate(const mr_stage_t *s, int64_t step);

/* Asks every training stage of this process to emit its state after the step that it works on, and
   to continue; a stage whose ranks are processes does not.  Any thread; returns at once. */
void mr_train_ask_states(void);

typedef struct mr_train_profile {
  /* Called after each step (number step, from 1) on the stage's thread; x does not run then. */
  void (*after)(void *arg, mr_exec_t *x, int64_t step);
  void *arg;
} mr_train_profile_t;

/* Sets the callback of `millrace profile`; s: of a settled graph that has not started. */
void mr_train_stage_profile(mr_stage_t *s, mr_train_profile_t p);

MR_END_DECLS

#endif
