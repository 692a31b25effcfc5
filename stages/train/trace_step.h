/* Inspecting every value of one training step: of a run in trace_step.c, of a replay file in
   replay.c. */
#ifndef MR_STAGES_TRAIN_TRACE_STEP_H
#define MR_STAGES_TRAIN_TRACE_STEP_H

#include <stdio.h>

#include "base/xio.h"
#include "pipeline/stage.h"
#include "stages/train/replay.h"

/* A step with its arguments, which belong to the caller. */
typedef struct mr__traced_step {
  const mr_loss_t *loss;
  mr_train_config_t config; /* as it ran */
  mr_params_t *params;
  const void *const *field;
  mr_train_in_t in;
  mr_scale_state_t scale; /* before it */
  mr_train_fp8_t fp8;     /* before it; n 0: none */
  int n_records;
  const uint64_t *record; /* [n_records] ids of the batch */
} mr__traced_step_t;

/* Compiles t's step so that it changes no parameters, whatever its result; apart: without the pass
   that joins ops, so that each keeps an equation of its own.  The caller destroys *out.  Fails as
   mr_train_step_create. */
mr_err_t mr__traced_compile(const mr__traced_step_t *t, bool apart, mr_train_step_t **out,
                            mr_diag_t *diag);
/* Runs such a step and reads its results into *out.  MR_OK, or the failure of mr_train_step_run. */
mr_err_t mr__traced_run(const mr__traced_step_t *t, mr_train_step_t *step, mr_train_out_t *out,
                        mr_diag_t *diag);
/* Makes the folder ("": the current one) if it is missing, and checks that a replay file can be
   written there.  MR_ERR_IO. */
mr_err_t mr__replay_folder(const char *folder, mr_diag_t *diag);
/* Writes the replay file of t, a step of the stage s that came out as r, into the folder; whole or
   not at all.  path receives its name: nan-STEP.safetensors, or with -2, -3, ... behind the step if
   files of these names are there, which stay.  MR_ERR_IO, MR_ERR_NOMEM, or MR_ERR_CONFIG for a
   setting that has no text. */
mr_err_t mr__replay_save(const mr_stage_t *s, const char *folder, const mr__traced_step_t *t,
                         const mr_train_out_t *r, char path[MR_PATH_MAX], mr_diag_t *diag);
/* As mr_replay_trace, for t: compiles the step, runs it and destroys it; fails as that does. */
mr_err_t mr__trace_step(const mr__traced_step_t *t, FILE *list, mr_traced_t *out, mr_diag_t *diag);

#endif
