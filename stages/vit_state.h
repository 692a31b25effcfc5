/* What a checkpoint of vit-step holds, packed into the payload of a STATE buffer, and read back.

   Tensors: "params/NAME", "adam.m/NAME", "adam.v/NAME" for every parameter, f32, and "ema/NAME" if
   an average of the weights is kept; "stream/PORT" for
   each of these inputs that is linked, i64: where its stream goes on (pipeline/stream_at.h), which
   takes no more time after a million steps than after one. Text: millrace.model (every setting that
   shapes the model), step, images, position, epoch, ledger, seed, unvalidated, the data's origin,
   the optimizer, a dynamic loss scale's state (loss_scale: its five numbers) and the version of all
   this, each as "millrace.WORD".  Version 1 had no version and no streams but the training stream's
   position. */
#ifndef MR_STAGES_VIT_STATE_H
#define MR_STAGES_VIT_STATE_H

#include "model/train.h"
#include "pipeline/stage.h"
#include "pipeline/state.h"
#include "pipeline/stream_at.h"

/* Inputs whose streams go on.  The test stream is read once, at the end of the run, and again if
   the run goes on after its end: always from the start. */
enum { MR_VIT_STREAMS = 2 };

extern const char *const mr_vit_stream_name[MR_VIT_STREAMS]; /* "in", "valid" */

/* Where a run stands between two steps. */
typedef struct mr_vit_progress {
  int64_t step;   /* steps done */
  int64_t images; /* training images seen */
  int64_t epoch;  /* epochs done */
  uint64_t ledger;
  uint64_t seed;                         /* of initialisation and dropout */
  bool unvalidated;                      /* an epoch is over, its validation is not */
  char origin[32];                       /* of the data, "cifar10" */
  float ema;                             /* decay of the average of weights, 0: none is kept */
  mr_scale_state_t scale;                /* of a dynamic loss scale; scale 0: there is none */
  char optimizer[16];                    /* whose moments adam.m and adam.v are */
  mr_stream_at_t stream[MR_VIT_STREAMS]; /* as they stand between two steps, or validations */
  bool stream_known[MR_VIT_STREAMS];
} mr_vit_progress_t;

/* Steps that a vit-step will have made at the end of its run; 0: nobody can tell.  s: of a settled
   graph. */
int64_t mr_vit_step_total(const mr_stage_t *s);

/* Bytes a STATE buffer must hold for a model of these parameters. */
size_t mr_vit_state_bytes(const mr_params_t *params);

/* Writes names and progress into mem (64-aligned, mr_vit_state_bytes) as the mr_state_t at its
   start; its tensors point at the arenas of params, which must not change while anyone reads it.
   of: the name of the stage, which stays.  Returns the bytes used. */
size_t mr_vit_state_pack(const mr_params_t *params, const mr_vit_config_t *c,
                         const mr_vit_progress_t *p, const char *of, bool last, void *mem);

/* The configuration of the model in a checkpoint file; dropout is 0 and dtype bf16, which are no
   part of it.  MR_ERR_IO or MR_ERR_DATA. */
mr_err_t mr_vit_state_config(const char *path, mr_vit_config_t *out, mr_diag_t *diag);

/* Where the run of a checkpoint file stands.  MR_ERR_IO or MR_ERR_DATA. */
mr_err_t mr_vit_state_progress(const char *path, mr_vit_progress_t *p, mr_diag_t *diag);

/* Whether a checkpoint file holds an average of the weights.  MR_ERR_IO or MR_ERR_DATA. */
mr_err_t mr_vit_state_averaged(const char *path, bool *out, mr_diag_t *diag);

/* Whether a checkpoint file holds the tensors of this list of parameters, which may have no arenas
   yet: a file that merely claims to be of a large model is refused before memory is taken for it.
   Failures as mr_vit_state_load. */
mr_err_t mr_vit_state_check(const char *path, const mr_vit_config_t *c, const mr_params_t *params,
                            mr_diag_t *diag);

/* Fills the arenas of params and p from a checkpoint file; params->averaged beside a checkpoint
   without an average: it begins as the parameters.
   MR_ERR_DATA names path and what does not fit: another model, a missing tensor, bad text. */
mr_err_t mr_vit_state_load(const char *path, const mr_vit_config_t *c, mr_params_t *params,
                           mr_vit_progress_t *p, mr_diag_t *diag);

#endif
