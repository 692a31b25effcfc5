/* What a checkpoint of train-step holds, packed into the payload of a STATE buffer, and read back.

   Tensors: "params/NAME", "adam.m/NAME", "adam.v/NAME" for every parameter, f32, and "ema/NAME" if
   an average of the weights is kept; "stream/PORT" for
   each of these inputs that is linked, i64: where its stream goes on (pipeline/stream_at.h), which
   takes no more time after a million steps than after one. Text: millrace.model (mr_model_text:
   every setting that shapes the model), step, images, position, epoch, ledger, seed, unvalidated,
   the data's origin, the optimizer, a dynamic loss scale's state (loss_scale: its five numbers) and
   the version of all this, each as "millrace.WORD".  Version 1 had no version and no streams but
   the training stream's position. */
#ifndef MR_STAGES_TRAIN_STATE_H
#define MR_STAGES_TRAIN_STATE_H

#include "model/train.h"
#include "model/zoo/zoo.h"
#include "pipeline/stage.h"
#include "pipeline/state.h"
#include "pipeline/stream_at.h"

/* Inputs whose streams go on.  The test stream is read once, at the end of the run, and again if
   the run goes on after its end: always from the start. */
enum { MR_TRAIN_STREAMS = 2 };

extern const char *const mr_train_stream_name[MR_TRAIN_STREAMS]; /* "in", "valid" */

/* Where a run stands between two steps. */
typedef struct mr_train_progress {
  int64_t step;   /* steps done */
  int64_t images; /* training images seen */
  int64_t epoch;  /* epochs done */
  uint64_t ledger;
  uint64_t seed;                           /* of initialisation and dropout */
  bool unvalidated;                        /* an epoch is over, its validation is not */
  char origin[32];                         /* of the data, "cifar10" */
  float ema;                               /* decay of the average of weights, 0: none is kept */
  mr_scale_state_t scale;                  /* of a dynamic loss scale; scale 0: there is none */
  char optimizer[16];                      /* whose moments adam.m and adam.v are */
  mr_stream_at_t stream[MR_TRAIN_STREAMS]; /* as they stand between two steps, or validations */
  bool stream_known[MR_TRAIN_STREAMS];
} mr_train_progress_t;

/* Bytes a STATE buffer must hold for a model of these parameters, of which an average may be kept.
 */
size_t mr_train_state_bytes(const mr_params_t *params, bool averaged);

/* Writes names and progress into mem (64-aligned, mr_train_state_bytes) as the mr_state_t at its
   start; its tensors point at the arenas of params, which must not change while anyone reads it.
   model: mr_model_text; of: the name of the stage, which stays.  Returns the bytes used. */
size_t mr_train_state_pack(const mr_params_t *params, const char *model,
                           const mr_train_progress_t *p, const char *of, bool last, void *mem);

/* What a checkpoint file says its model is, into text[MR_MODEL_TEXT].  MR_ERR_IO or MR_ERR_DATA. */
mr_err_t mr_train_state_model(const char *path, char *text, mr_diag_t *diag);

/* Where the run of a checkpoint file stands.  MR_ERR_IO or MR_ERR_DATA. */
mr_err_t mr_train_state_progress(const char *path, mr_train_progress_t *p, mr_diag_t *diag);

/* Whether a checkpoint file holds an average of the weights.  MR_ERR_IO or MR_ERR_DATA. */
mr_err_t mr_train_state_averaged(const char *path, bool *out, mr_diag_t *diag);

/* Whether a checkpoint file holds the tensors of this list of parameters, which may have no arenas
   yet: a file that merely claims to be of a large model is refused before memory is taken for it.
   Failures as mr_train_state_load. */
mr_err_t mr_train_state_check(const char *path, const char *model, const mr_params_t *params,
                              mr_diag_t *diag);

/* Fills the arenas of params and p from a checkpoint file; an average beside a checkpoint
   without one begins as the values.
   MR_ERR_DATA names path and what does not fit: another model, a missing tensor, bad text. */
mr_err_t mr_train_state_load(const char *path, const char *model, mr_params_t *params,
                             mr_train_progress_t *p, mr_diag_t *diag);

#endif
